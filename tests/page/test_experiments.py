"""The pages of experiments over a real store: dollars against quality, and which trials to stop."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.page.accessibility import violations
from tests.page.conftest import Open
from tests.page.keyboard import follow
from tests.page.real import serving_data
from tests.page.test_layout import CONTRAST
from tests.web import sweep


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_data(sweep.replayed(tmp_path_factory.mktemp("sweep")), wall_ms=sweep.AS_OF_MS) as found:
        yield found


def test_which_trials_to_stop_takes_two_clicks(url: str, opened: Open) -> None:
    page = opened(url).page
    page.get_by_role("link", name="Experiments").click()
    row = page.get_by_role("table", name="Experiments").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("vision")
    expect(row.locator("[title='$73.00']")).to_have_text("$73.00")
    row.get_by_role("link").click()
    stops = page.get_by_role("region", name="Stop these")
    # `dear` is behind `good`, which cost $6; completed trials ran for an hour: too few of them to say for how long.
    expect(stops).to_contain_text("Stopping this trial saves $12.00 each hour: it is behind")
    expect(stops.locator("li")).to_have_text(["dear $36.00 for 0.75, behind best $19.00 for 0.9"])
    page.get_by_role("link", name="Live", exact=True).click()
    expect(page.locator("#board")).to_be_visible()


def test_which_trials_to_stop_is_found_by_keys_alone(url: str, opened: Open) -> None:
    page = opened(url).page
    follow(page, page.get_by_role("link", name="Experiments"))
    follow(page, page.get_by_role("table", name="Experiments").locator("tbody").get_by_role("link"))
    stops = page.get_by_role("region", name="Stop these")
    follow(page, stops.locator("li").get_by_role("link").first)
    expect(page).to_have_url(re.compile("#/job/dear$"))


def test_trials_stand_by_dollars_and_quality_and_the_link_keeps_the_view(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/experiments/lr%20sweep%2F%C3%BC?quality=loss").page
    trials = page.get_by_role("table", name="Trials").locator("tbody tr")
    expect(trials).to_have_count(5)
    expect(trials.nth(0)).to_contain_text("behind")
    expect(trials.nth(1)).to_contain_text("★ on the front")
    expect(trials.nth(2)).to_contain_text("<img src=x onerror=alert(1)>\\u{202e}gnp")
    # Of a loss less is better, as the page takes it from the name; the reader may say otherwise.
    expect(page.get_by_label("Better is")).to_have_value("lower")
    figure = page.locator(".scatter")
    expect(figure).to_have_attribute(
        "aria-label",
        "4 trials by dollars and loss. On the Pareto front, from cheap to dear: cheap, $3.00, 0.3; good, $6.00, 0.2; best, $19.00, 0.1. Best: best.",
    )
    assert figure.locator(".star").count() == 3
    page.get_by_label("Better is").select_option("higher")
    expect(figure.locator(".star")).to_have_count(1)
    assert page.url.endswith("?quality=loss&better=higher")
    page.go_back()
    expect(figure.locator(".star")).to_have_count(3)


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_nothing_overflows_and_every_text_can_be_read(
    url: str, opened: Open, width: int, scheme: str
) -> None:
    for path in ("/#/experiments", "/#/experiments/lr%20sweep%2F%C3%BC"):
        page = opened(url + path, width=width, scheme=scheme, calm=True).page
        expect(page.locator(".page tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CONTRAST) == []
        assert violations(page) == []


def test_an_unknown_experiment_says_so(url: str, opened: Open) -> None:
    watched = opened(f"{url}/#/experiments/nothing")
    watched.provoked = ("404",)
    expect(watched.page.get_by_text("No job of this store names this experiment.")).to_be_visible()


def test_what_came_before_the_meters_clock_is_shown_anew_with_it(url: str, opened: Open) -> None:
    page = opened(url).page
    held: list[Route] = []
    page.route("**/api/v1/stream*", lambda route: held.append(route))
    page.goto("about:blank")
    page.goto(f"{url}/#/job/best")
    last = page.get_by_role("region", name="Checkpoints").locator("li", has_text="the last at")
    expect(last).to_be_visible()
    expect(last).not_to_have_text("the last at 14:00:00")
    for route in held:
        route.continue_()
    expect(last).to_have_text("the last at 14:00:00")


def test_a_job_shows_what_a_failure_would_lose_and_where_it_runs(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/job/best").page
    expect(page.locator(".job-head")).to_contain_text(re.compile(r"loss 0\.1\b"))
    saves = page.get_by_role("region", name="Checkpoints")
    # An hour at $6 since the last one, at 14:00.
    expect(saves.locator("li")).to_have_text(
        [
            "3 checkpoints",
            "one each 45 min (median)",
            "each takes 30 s (median of the 2 that say)",
            "the last at 14:00:00",
            re.compile(r"a failure now would lose about \$6\.0\d of work"),
        ]
    )
    nodes = page.get_by_role("table", name="Nodes of the job").locator("tbody tr")
    expect(nodes).to_have_count(1)
    expect(nodes.locator("[title='$18.00']")).to_be_visible()
    expect(page.get_by_text("Network and storage per hour")).to_be_visible()
    page.goto(f"{url}/#/job/good")
    expect(saves).to_contain_text("None reported")
    expect(page.get_by_text("Network and storage per hour")).to_be_hidden()
