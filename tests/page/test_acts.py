"""Acting on an alert from the page: the buttons, the dialog, what is sent, what is shown of it, and links of messages."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page import fleet
from tests.page.conftest import Open, Watched
from tests.page.server import NOW_MS, Script, Server

Board = Callable[..., Watched]
JOB = "llm-pretrain-7b"
HOUR_MS = 3_600_000
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202egnp"


@pytest.fixture
def alert(script: Script) -> dict[str, Any]:
    """One firing page, of a worker that takes acts."""
    script.may_act = True
    # The reader's clock is not the meter's in these tests: what ends at an instant ends by the meter's.
    script.speed = 1
    row = fleet.alert(JOB, 0, NOW_MS - 600_000, alert_id="al_8fe63f15d88e32e0d55fbafd")
    script.alerts.append(row)
    return row


def give_token(page: Page, token: str) -> None:
    expect(page.get_by_label("Token (setting web.write_token)")).to_be_focused()
    page.keyboard.type(token)
    page.keyboard.press("Enter")


def acted(kind: str, **changes: Any) -> dict[str, Any]:
    control = {
        "kind": kind,
        "name": "web_1",
        "by": "web.write_token",
        "comment": "",
        "begins_ms": None,
        "until_ms": NOW_MS + HOUR_MS,
        "match": {"job_id": JOB, "rule": "burn_fast"},
    }
    return control | changes


def test_an_acknowledgement_by_keyboard_asks_for_the_token_once(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    page = board().page
    button = page.get_by_role("button", name="Acknowledge 4 h")
    button.focus()
    page.keyboard.press("Enter")
    give_token(page, script.write_token)
    expect(page.locator(".toast")).to_contain_text("Acknowledged, by web.write_token, until")
    expect(button).to_be_focused()
    (record,) = script.records
    assert (record["kind"], record["alert_id"]) == ("ack", alert["alert_id"])
    assert 3.9 * HOUR_MS < record["until_ms"] - script.now_ms <= 4.1 * HOUR_MS
    page.get_by_role("button", name="Silence 8 h").click()
    expect(page.locator(".toast")).to_have_count(2)
    assert script.records[1].items() >= {"kind": "silence", "job_id": JOB, "rule": "burn_fast"}.items()
    kept = page.evaluate("[Object.keys(sessionStorage), Object.keys(localStorage), document.cookie]")
    assert [sorted(kept[0]), *kept[1:]] == [
        ["trainfare.write-token", "trainfare.write-token.until-ms"],
        [],
        "",
    ]
    # An hour after the last act it is asked for again.
    page.evaluate("sessionStorage.setItem('trainfare.write-token.until-ms', String(Date.now() - 1))")
    page.get_by_role("button", name="Silence 8 h").click()
    expect(page.get_by_label("Token (setting web.write_token)")).to_be_focused()
    assert page.evaluate("sessionStorage.getItem('trainfare.write-token')") is None
    page.keyboard.press("Escape")
    page.evaluate("sessionStorage.clear()")


@pytest.mark.parametrize(
    ("kind", "match"),
    [("team", {"team": "x"}), ("sku", {"owner": "ada", "team": "vision", "project": "atlas"})],
)
def test_an_alert_about_no_job_is_silenced_by_what_it_is_about_or_whose_it_is(
    board: Board, script: Script, alert: dict[str, Any], kind: str, match: dict[str, str]
) -> None:
    alert |= {"subject": {"kind": kind, "name": "x"}}
    page = board().page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    expect(page.get_by_role("button", name="This is planned…")).to_have_count(0)
    page.get_by_role("button", name="Silence 1 h").click()
    expect(page.locator(".toast")).to_have_count(1)
    (record,) = script.records
    assert record.keys() == {"kind", "rule", "until_ms", *match}
    assert record.items() >= match.items()
    page.evaluate("sessionStorage.clear()")


def test_what_is_planned_begins_with_the_rate_of_now(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    page = board().page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    page.get_by_role("button", name="This is planned…").click()
    rate = page.get_by_label("Dollars per hour")
    expect(rate).to_have_value("142.77")
    rate.fill("150.5")
    page.get_by_label("For the next hours").fill("12")
    page.get_by_label("Why (optional)").fill("64 GPUs until the deadline")
    page.get_by_role("button", name="It is planned").click()
    expect(page.locator(".toast")).to_contain_text("Planned: $150.50/h")
    (record,) = script.records
    assert (record["usd_per_hour"], record["comment"]) == ("150.5", "64 GPUs until the deadline")
    assert record["from_ms"] == alert["started_ms"] - alert["window_ms"]
    assert 11.9 * HOUR_MS < record["until_ms"] - script.now_ms <= 12.1 * HOUR_MS
    page.evaluate("sessionStorage.clear()")


def test_what_is_planned_for_traffic_has_all_else_that_the_job_costs(
    board: Board, alert: dict[str, Any]
) -> None:
    alert["rule"] = "traffic"
    page = board().page
    page.get_by_role("button", name="This is planned…").click()
    expect(page.get_by_label("Dollars per hour")).to_have_value("165.08")
    page.keyboard.press("Escape")


def test_a_rate_that_is_none_is_not_sent_and_escape_sends_nothing(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    page = board().page
    page.get_by_role("button", name="This is planned…").click()
    page.get_by_label("Dollars per hour").fill("much")
    page.get_by_role("button", name="It is planned").click()
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="This is planned…")).to_be_focused()
    assert not script.records


def test_a_refusal_is_said_and_a_wrong_token_is_forgotten(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    watched = board()
    page = watched.page
    watched.provoked = ("401", "503")
    page.get_by_role("button", name="Silence 1 h").click()
    give_token(page, "a-wrong-one-of-sixteen")
    expect(page.locator(".toast[data-kind=bad]")).to_contain_text("Not written: show a token with the scope")
    assert page.evaluate("sessionStorage.length") == 0
    script.refusal = 503, "Kafka is away"
    page.get_by_role("button", name="Silence 1 h").click()
    give_token(page, script.write_token)
    expect(page.locator(".toast").last).to_contain_text("Kafka is away. Try again in a few seconds.")
    assert not script.records


def test_what_was_done_is_shown_with_hostile_text_escaped_and_can_be_ended(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    alert["acknowledged"] = acted("ack", alert_id=alert["alert_id"], comment=HOSTILE)
    alert["silenced_by"] = acted("silence")
    alert["planned_by"] = acted("planned", usd_per_hour="440.330000000", begins_ms=NOW_MS - 1000)
    page = board().page
    done = page.locator(".alerts .done li")
    expect(done).to_have_count(3)
    expect(done.nth(0)).to_contain_text("acknowledged by web.write_token until")
    expect(done.nth(0).locator("q")).to_have_text(r"<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}gnp")
    expect(done.nth(2)).to_contain_text("planned $440.33/h by web.write_token until")
    assert page.locator(".done img").count() == 0
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    for word in ("acknowledged", "silenced", "planned"):
        page.get_by_role("button", name=f"End: {word}").click()
    expect(page.locator(".toast")).to_have_count(3)
    ack, silence, planned = script.records
    assert (ack["alert_id"], silence["name"], planned["usd_per_hour"]) == (
        alert["alert_id"],
        "web_1",
        "440.330000000",
    )
    assert [record.get("comment") for record in script.records] == [HOSTILE, None, None]
    assert all(record["until_ms"] <= script.now_ms + 60_000 for record in script.records)
    page.evaluate("sessionStorage.clear()")


def test_without_a_token_for_it_the_page_has_no_buttons(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    script.may_act = False
    page = board().page
    expect(page.locator(".alerts .alert")).to_have_count(1)
    assert page.locator(".act:visible").count() == 0


def test_a_resolved_alert_and_one_about_the_meter_have_no_buttons(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    alert |= {"status": "resolved", "resolved_ms": NOW_MS - 1000}
    script.alerts.append(fleet.alert("books", 0, NOW_MS - 1000, subject={"kind": "meter", "name": "books"}))
    page = board().page
    page.locator(".past summary").click()
    expect(page.locator(".alerts .alert")).to_have_count(2)
    assert page.locator(".alerts .act:visible").count() == 0


@pytest.mark.parametrize(
    "link",
    [f"/?silence={{}}#/job/{JOB}", "/?silence={}#/", "/#alert={}&do=silence", f"/?planned={{}}#/job/{JOB}"],
)
def test_the_link_of_a_message_opens_what_it_says_once(
    board: Board, script: Script, alert: dict[str, Any], link: str
) -> None:
    page = board(link.format(alert["alert_id"])).page
    dialog = page.locator("dialog")
    expect(dialog).to_be_visible()
    planned = "planned" in link
    expect(dialog).to_contain_text(
        f"What is planned for {JOB}?" if planned else f"Silence Runaway burn of {JOB}?"
    )
    if not planned:
        page.get_by_label("For", exact=True).select_option("8")
        page.get_by_role("button", name="Silence", exact=True).click()
        give_token(page, script.write_token)
        expect(page.locator(".toast")).to_contain_text("Silenced")
        assert script.records[0].items() >= {"kind": "silence", "job_id": JOB, "rule": "burn_fast"}.items()
    else:
        page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert alert["alert_id"] not in page.url
    page.wait_for_timeout(600)
    assert dialog.count() == 0
    page.evaluate("sessionStorage.clear()")


@pytest.mark.parametrize("act", ["ack", "silence", "planned", "anything"])
def test_a_link_writes_nothing_before_its_reader_agrees_token_or_not(
    board: Board, script: Script, alert: dict[str, Any], act: str
) -> None:
    page = board().page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    page.goto(f"{page.url.partition('#')[0]}?x#alert={alert['alert_id']}&do={act}")
    expect(page.locator("dialog")).to_be_visible()
    page.wait_for_timeout(300)
    assert not script.records
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert not script.records
    page.evaluate("sessionStorage.clear()")


def test_a_link_where_nothing_may_be_written_says_how_to_change_that(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    script.may_act = False
    page = board(f"/?silence={alert['alert_id']}#/").page
    expect(page.locator(".toast[data-kind=bad]")).to_contain_text("set web.write_token")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_runs_over_the_edge(
    board: Board, script: Script, alert: dict[str, Any], width: int, scheme: str
) -> None:
    alert["acknowledged"] = acted("ack", alert_id=alert["alert_id"], comment="x" * 400)
    page = board(width=width, scheme=scheme).page
    expect(page.locator(".alerts .done li")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="This is planned…").click()
    box = page.locator("dialog").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    sizes = page.evaluate(
        "[...document.querySelectorAll('.act-line button')].map((each) => each.getBoundingClientRect().height)"
    )
    assert min(sizes) >= (40 if width == 360 else 24)


def test_receipts_of_an_owner_are_asked_for_from_a_job(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    page = board(f"/#/job/{JOB}").page
    page.get_by_role("button", name="Receipts…").click()
    expect(page.locator("dialog")).to_contain_text("Receipts of jobs of grace")
    page.get_by_label("When one ends, and weekly").select_option("no")
    page.get_by_label("Why (optional)").fill("too many")
    page.get_by_role("button", name="Set it").click()
    give_token(page, script.write_token)
    expect(page.locator(".toast")).to_contain_text("No more receipts to grace, by web.write_token.")
    assert script.records == [{"kind": "receipt", "owner": "grace", "on": False, "comment": "too many"}]
    page.evaluate("sessionStorage.clear()")


def test_a_silence_that_takes_the_whole_rule_says_so(
    board: Board, script: Script, alert: dict[str, Any]
) -> None:
    alert |= {"rule": "price_jump", "subject": {"kind": "sku", "name": "p5"}}
    page = board().page
    page.get_by_role("button", name="Silence all of its rule 1 h").click()
    give_token(page, script.write_token)
    expect(page.locator(".toast")).to_contain_text("Silenced")
    (record,) = script.records
    assert {name: value for name, value in record.items() if name != "until_ms"} == {
        "kind": "silence",
        "rule": "price_jump",
    }


# -- a signed link -------------------------------------------------------------------------------------------


def signed(server: Server, act: str, **about: Any) -> str:
    """The address of a link; the scripted server checks no signature."""
    said = {"alert": "al_1", "rule": "burn_fast", "kind": "job", "name": JOB, "usd": "32.500000001"}
    payload = json.dumps({**said, "ends_ms": NOW_MS + 7 * 24 * HOUR_MS, **about}).encode()
    return f"{server.url}/act#{act}={urlsafe_b64encode(payload).decode().rstrip('=')}.c2ln"


def test_a_signed_link_asks_once_and_then_acts(server: Server, script: Script, opened: Open) -> None:
    watched = opened(signed(server, "ack"), width=360)
    page = watched.page
    expect(page.get_by_role("heading", name=f"Acknowledge: Runaway burn of job {JOB}?")).to_be_focused()
    expect(page.get_by_text("$32.50/h")).to_have_attribute("title", "$32.500000001")
    assert not script.records, "to open it does nothing"
    assert not [path for path in script.asked if path.startswith("/api/")]
    page.get_by_label("24 h").check()
    page.get_by_label("Why (optional)").fill("on it")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="✓ Acknowledged: Runaway burn")).to_be_focused()
    (record,) = script.records
    assert {name: record[name] for name in ("act", "hours", "comment")} == {
        "act": "ack",
        "hours": 24,
        "comment": "on it",
    }
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_signed_link_that_is_refused_says_why_and_can_be_tried_again(
    server: Server, script: Script, opened: Open
) -> None:
    script.refusal = (410, "this link has ended: open the alert on the page, or in a newer message")
    watched = opened(signed(server, "planned", name=HOSTILE), scheme="dark")
    watched.provoked = ("410",)
    page = watched.page
    page.get_by_role("button", name="This is planned").click()
    expect(page.get_by_role("alert")).to_contain_text("Not done: this link has ended")
    expect(page.locator("h1")).to_contain_text("<img src=x onerror=alert(1)>\\u{1b}[31m\\u{202e}gnp")
    script.refusal = None
    page.get_by_role("button", name="This is planned").click()
    expect(page.get_by_role("heading", name="✓ Planned")).to_be_visible()


@pytest.mark.parametrize("hash_", ["", "#ack=", "#ack=e30", "#budget=e30.c2ln", "#ack=%FF.c2ln"])
def test_half_a_signed_link_says_so(server: Server, opened: Open, hash_: str) -> None:
    page = opened(f"{server.url}/act{hash_}").page
    expect(page.locator("h1")).to_have_text("This link is not whole")
    assert page.get_by_role("button").count() == 0
