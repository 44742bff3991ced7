"""The pages of alerts: the list with its filters and pages, one alert with why it fired, who was told, what can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.state.dimensions import AlertDimensions
from streams.web.control_record import control_record
from tests.page import fleet
from tests.page.accessibility import violations
from tests.page.conftest import Watched
from tests.page.keyboard import follow
from tests.page.server import NOW_MS, Script
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
MINUTE_MS = 60_000
NIGHT = "al_000000000000000000000001"
HEAD = "al_0000000000000000000000aa"
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202egnp" + "x" * 240


@pytest.fixture
def alerts(script: Script) -> list[dict[str, Any]]:
    """A page of last night that is over, one that fires, and an incident with three jobs."""
    script.speed = 1
    night = fleet.alert(
        "asr-conformer-spot",
        2,
        NOW_MS - 600 * MINUTE_MS,
        alert_id=NIGHT,
        status="resolved",
        resolved_ms=NOW_MS - 560 * MINUTE_MS,
    )
    night["deliveries"].append(
        fleet.delivered(NOW_MS - 560 * MINUTE_MS, status="resolved")
        | {"receiver": "https://hooks.slack.com #for linus"}
    )
    now = fleet.alert("llm-pretrain-7b", 1, NOW_MS - 10 * MINUTE_MS, alert_id="al_000000000000000000000002")
    head = fleet.alert(
        "vision/lr",
        0,
        NOW_MS - 30 * MINUTE_MS,
        alert_id=HEAD,
        rule="incident",
        subject={"kind": "sweep", "name": "vision/lr"},
    )
    members = [
        fleet.alert(
            f"sweep-vit-lr/trial-{number:02d}",
            0,
            NOW_MS - (31 - number) * MINUTE_MS,
            alert_id=f"al_00000000000000000000010{number}",
            part_of=HEAD,
            deliveries=[],
        )
        for number in range(3)
    ]
    script.alerts[:] = [night, now, head, *members]
    return script.alerts  # fmt: skip


def opened_row(page: Page, name: str) -> Any:
    return page.locator(".alerts-table tbody tr", has_text=name)


def test_why_a_page_came_at_night_is_two_clicks_from_the_board(
    board: Board, alerts: list[dict[str, Any]]
) -> None:
    page = board().page
    page.get_by_role("link", name="Alerts", exact=True).click()
    opened_row(page, "asr-conformer-spot").get_by_role("link", name="Runaway burn").click()
    expect(page.get_by_role("heading", name="Runaway burn")).to_be_visible()
    expect(page.locator(".conditions tbody tr").first).to_contain_text("cost / expected over 15 min")
    expect(page.locator(".conditions tbody tr").first).to_contain_text("2.56 of it, met")
    told = page.locator(".deliveries tbody tr")
    expect(told).to_have_count(2)
    expect(told.nth(0)).to_contain_text("http://127.0.0.1:9000")
    expect(told.nth(0)).to_contain_text("delivered")
    expect(told.nth(1)).to_contain_text("it is over")
    expect(page.locator(".course")).to_have_count(1)
    expect(page.locator(".others tbody tr").first).to_contain_text("burn_fast")
    expect(page.get_by_role("link", name="The runbook")).to_have_attribute(
        "href", "https://docs.example.com/runbook.md#spend-spike"
    )


def test_why_a_page_came_at_night_is_found_by_keys_alone(board: Board, alerts: list[dict[str, Any]]) -> None:
    page = board().page
    follow(page, page.get_by_role("link", name="Alerts", exact=True))
    follow(page, opened_row(page, "asr-conformer-spot").get_by_role("link", name="Runaway burn"))
    expect(page.locator(".conditions tbody tr").first).to_contain_text("2.56 of it, met")


def test_an_alert_that_fires_is_one_click_from_the_board_and_from_its_job(
    board: Board, alerts: list[dict[str, Any]]
) -> None:
    page = board().page
    page.locator("#alerts .alert", has_text="llm-pretrain-7b").get_by_role(
        "link", name="Runaway burn"
    ).click()
    expect(page.locator(".page-head h1")).to_have_text("Runaway burn")
    page.locator("#page .about .subject").click()
    expect(page.locator("#job-title")).to_have_text("llm-pretrain-7b")
    page.locator(".evidence .rule").click()
    expect(page.locator(".page-head h1")).to_be_focused()


def test_filters_are_in_the_address_and_back_undoes_the_page(
    board: Board, script: Script, alerts: list[dict[str, Any]]
) -> None:
    page = board("/#/alerts").page
    form = page.get_by_role("search", name="Filter the alerts")
    expect(page.locator(".alerts-table tbody tr")).to_have_count(3)
    expect(page.locator(".page-head .count")).to_have_text("3 rows with 6 alerts")
    form.get_by_label("Status").select_option("resolved")
    expect(page.locator(".alerts-table tbody tr")).to_have_count(1)
    assert "status=resolved" in page.url
    form.get_by_label("Search").fill("diffusion")
    expect(page.locator(".empty .lead")).to_have_text("No alert is like that.")
    assert "text=diffusion" in page.url
    page.reload()
    expect(form.get_by_label("Search")).to_have_value("diffusion")
    expect(form.get_by_label("Status")).to_have_value("resolved")
    page.get_by_role("link", name="Clear them").click()
    expect(page.locator(".alerts-table tbody tr")).to_have_count(3)
    form.get_by_label("Owner").select_option("linus")
    expect(page.locator(".alerts-table tbody tr")).to_have_count(1)
    form.get_by_label("Fired in").select_option("1h")
    expect(page.locator("#page .empty")).to_be_visible()
    form.get_by_label("Fired in").select_option("between")
    form.get_by_label("From (UTC)").fill("2026-06-01T01:00")
    expect(page.locator(".alerts-table tbody tr")).to_have_count(1)
    assert "span=between&from=2026-06-01T01%3A00" in page.url


def test_pages_of_a_long_history(board: Board, script: Script) -> None:
    script.speed = 1
    script.alerts[:] = [
        fleet.alert(f"job-{number:03d}", 0, NOW_MS - number * MINUTE_MS, alert_id=f"al_{number:024d}")
        for number in range(120)
    ]
    page = board("/#/alerts").page
    rows = page.locator(".alerts-table tbody tr")
    expect(rows).to_have_count(50)
    expect(page.locator(".page-head .count")).to_have_text("50 of 120 alerts, the newest")
    page.get_by_role("link", name="Older").click()
    expect(rows.first).to_contain_text("job-050")
    page.get_by_role("link", name="Older").click()
    expect(rows).to_have_count(20)
    expect(page.get_by_role("link", name="Older")).to_be_hidden()
    page.go_back()
    expect(rows.first).to_contain_text("job-050")
    page.get_by_role("link", name="Newest").click()
    expect(rows.first).to_contain_text("job-000")


def test_an_incident_opens_to_its_jobs_by_keyboard(board: Board, alerts: list[dict[str, Any]]) -> None:
    page = board("/#/alerts").page
    fold = page.get_by_role("button", name="3 alerts of 3 jobs, 3 firing, $428.31/h when they began")
    fold.focus()
    page.keyboard.press("Enter")
    members = page.locator(".member-list li")
    expect(members).to_have_count(3)
    expect(members.first).to_contain_text("sweep-vit-lr/trial-02")
    expect(members.first).to_contain_text("$142.77/h")
    expect(page.locator(".fold")).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".fold")).to_be_focused()
    assert f"open={HEAD}" in page.url
    page.keyboard.press("Enter")
    expect(members).to_have_count(0)
    opened_row(page, "vision/lr").locator(".rule").click()
    expect(page.locator(".member-list li")).to_have_count(3)
    page.locator(".member-list li").first.get_by_role("link", name="Runaway burn").click()
    expect(page.locator(".part-of")).to_contain_text("vision/lr tells of: they have one cause")


def test_where_nothing_can_be_written_the_page_says_what_to_set(
    board: Board, alerts: list[dict[str, Any]]
) -> None:
    page = board("/#/alerts/al_000000000000000000000002").page
    expect(page.locator(".needs")).to_contain_text("set web.write_token (TRAINFARE_WEB_WRITE_TOKEN)")
    assert page.locator("#page .act:visible").count() == 0


def test_acting_on_one_alert(board: Board, script: Script, alerts: list[dict[str, Any]]) -> None:
    script.may_act = True
    script.controls = [
        {"kind": "silence", "name": "s", "by": "web.write_token", "comment": HOSTILE, "begins_ms": None, "until_ms": NOW_MS - MINUTE_MS, "recurs": "", "match": {"job_id": "llm-pretrain-7b"}, "state": "over"}
    ]  # fmt: skip
    page = board("/#/alerts/al_000000000000000000000002").page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    expect(page.locator(".done-table tbody tr")).to_contain_text("over")
    expect(page.locator(".done-table tbody q")).to_contain_text("<img src=x")
    page.locator("#page").get_by_role("button", name="Acknowledge 4 h").click()
    expect(page.locator(".toast")).to_contain_text("Acknowledged")
    assert script.records[0].items() >= {"kind": "ack", "alert_id": "al_000000000000000000000002"}.items()
    page.evaluate("sessionStorage.clear()")


@pytest.mark.parametrize(("rule", "kind"), [("ceiling", "job"), ("team_ceiling", "team")])
def test_acknowledging_a_ceiling_lifts_it_up_to_what_is_paid(
    board: Board, script: Script, alerts: list[dict[str, Any]], rule: str, kind: str
) -> None:
    script.may_act = True
    alerts[1] |= {"rule": rule, "subject": {"kind": kind, "name": "big"}, "usd_per_hour": "637.5"}
    page = board(f"/#/alerts/{alerts[1]['alert_id']}").page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    page.locator("#page").get_by_role("button", name="Acknowledge 4 h").click()
    expect(page.locator(".toast")).to_contain_text("Acknowledged")
    (record,) = script.records
    field = "job_id" if kind == "job" else "team"
    assert record.keys() == {"kind", "alert_id", "until_ms", field, "usd_per_hour"}
    # A worker takes what the page sends, and it has the effect that it is for.
    written = control_record(record, "web.write_token", NOW_MS)
    event = decode("controls", written.value, (), NOW_MS)
    assert isinstance(event, ControlEvent)
    controls = Controls.from_events([event])
    lifted = controls.planned_for(AlertDimensions("big"))
    assert controls.acknowledged_for("big", NOW_MS + MINUTE_MS) == 637_500_000_000 * (kind == "team")
    assert lifted == ((NOW_MS, record["until_ms"], 637_500_000_000),) * (kind == "job")
    page.evaluate("sessionStorage.clear()")


def test_what_is_usual_for_its_kind_is_said_in_the_list_and_why_nobody_was_told(
    board: Board, alerts: list[dict[str, Any]]
) -> None:
    why = "usual for jobs named llm-pretrain: 12 of the last 14 had up to $140/h of traffic"
    usual = fleet.delivered(NOW_MS - 10 * MINUTE_MS, "usual") | {"receiver": "ada", "http_status": 0, "detail": why}  # fmt: skip
    alerts[1] |= {"message": "usual", "deliveries": [usual], "because": why}
    page = board("/#/alerts").page
    expect(opened_row(page, "llm-pretrain-7b")).to_contain_text("usual for its kind")
    opened_row(page, "llm-pretrain-7b").get_by_role("link", name="Runaway burn").click()
    told = page.get_by_role("region", name="Where it was sent")
    expect(told).to_contain_text(f"Because: {why}.")
    expect(told.locator(".deliveries tbody tr")).to_contain_text("not sent: usual for its kind")
    page.get_by_role("link", name="Live", exact=True).click()
    expect(page.locator("#alerts .alert", has_text="llm-pretrain-7b")).to_contain_text(f"not sent: {why}")


def test_one_that_is_over_has_no_buttons(board: Board, script: Script, alerts: list[dict[str, Any]]) -> None:
    script.may_act = True
    page = board(f"/#/alerts/{NIGHT}").page
    expect(page.get_by_text("It is over: there is nothing to acknowledge any more.")).to_be_visible()
    assert page.locator("#page .act:visible").count() == 0


def test_the_judge_can_be_asked_for_another_instant(
    board: Board, script: Script, alerts: list[dict[str, Any]]
) -> None:
    page = board(f"/#/alerts/{NIGHT}").page
    expect(page.locator(".conditions tbody tr").first).to_be_visible()
    page.get_by_label("Judged").select_option("changed")
    expect(page.locator("#page code", has_text="trainfare alerts why")).to_contain_text(str(NOW_MS - 560 * MINUTE_MS))  # fmt: skip
    assert f"/#/alerts/{NIGHT}?at=changed" in page.url


def test_faults_are_said_where_they_are(board: Board, script: Script, alerts: list[dict[str, Any]]) -> None:
    watched = board("/#/alerts")
    watched.provoked = ("503", "404")
    page = watched.page
    expect(page.locator(".alerts-table tbody tr")).to_have_count(3)
    script.failing["/api/v1/alerts"] = "the store does not answer"
    page.get_by_label("Severity").select_option("page")
    expect(page.locator("#page .notice")).to_contain_text(
        "the store does not answer. What is shown is older."
    )
    expect(page.locator(".alerts-table tbody tr")).to_have_count(3)
    script.failing[f"/api/v1/alerts/{NIGHT}/why"] = "its state cannot be read"
    page.goto(f"{page.url.partition('#')[0]}#/alerts/{NIGHT}")
    expect(page.locator("#page .notice", has_text="its state cannot be read")).to_be_visible()
    expect(page.locator(".deliveries tbody tr")).to_have_count(2)
    # What fails is asked for again as often as all else, not with each snapshot.
    clock = page.locator("#clock")
    for _ in range(4):
        expect(clock).not_to_have_text(clock.text_content() or "", timeout=15_000)
    assert sum("/why" in url for url in watched.requests) <= 2
    page.goto(f"{page.url.partition('#')[0]}#/alerts/al_nothing")
    expect(page.locator("#page .notice").first).to_contain_text("The meter knows no alert al_nothing")


def test_without_any_alert_the_page_says_when_there_will_be_one(board: Board) -> None:
    page = board("/#/alerts").page
    expect(page.locator(".empty .lead")).to_have_text("No alert yet.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_runs_over_the_edge(
    board: Board, script: Script, alerts: list[dict[str, Any]], width: int, scheme: str
) -> None:
    alerts[1] |= {
        "subject": {"kind": "job", "name": HOSTILE},
        "summary": HOSTILE,
        "owner": HOSTILE,
        "team": HOSTILE,
    }
    page = board(f"/#/alerts?open={HEAD}", width=width, scheme=scheme, calm=True).page
    expect(page.locator(".member-list li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    assert violations(page) == []
    assert page.evaluate("[...document.querySelectorAll('button, a, input, select')].filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 18).map(each => each.outerHTML)") == []  # fmt: skip
    opened_row(page, "onerror").get_by_role("link", name="Runaway burn").click()
    expect(page.locator(".course")).to_have_count(1)
    page.locator("summary", has_text="The same as a table").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    assert violations(page) == []
