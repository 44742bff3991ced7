"""What `alerts why` says became of a message that was withheld as usual for its kind."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from streams.explain.why.messages import MessageFate, fates, outranked

ALERT: dict[str, Any] = {
    "alert_id": "al_1",
    "rule": "traffic",
    "started_ms": 5,
    "resolved_ms": None,
    "silenced": False,
    "severity": "ticket",
    "owner": "",
    "team": "",
    "project": "",
    "subject_kind": "job",
    "subject_name": "run-1",
    "changed_ms": 5,
}
WHY = "usual for jobs named prep: 6 of the last 6 had up to $140/h of traffic"


def fate(*outcomes: tuple[str, str, str, int]) -> MessageFate:
    rows = [
        {"alert_id": "al_1", "status": "firing", "receiver": receiver, "outcome": outcome, "detail": detail,
         "attempt": attempt, "http_status": 200 if attempt else 0, "time_ms": 60_000}
        for receiver, outcome, detail, attempt in outcomes
    ]  # fmt: skip
    (found,) = fates([ALERT], rows, [], {"al_1": {}}, 9)
    return found


def test_what_is_usual_says_why() -> None:
    found = fate(("ada", "usual", WHY, 0))
    assert (found.message, found.because) == ("usual for its kind, sent once it is not", WHY)


WAITS = "waits for others of its cause, until 2026-03-01 10:02:00 UTC at the latest"


def test_what_waits_says_for_what_and_until_when() -> None:
    found = fate(("ada", "waiting", WAITS, 0))
    assert (found.message, found.because) == ("not sent so far", WAITS)
    found = fate(("ada", "waiting", WAITS, 0), ("https://hooks.example.com", "delivered", "", 1))
    assert (found.message, found.because) == ("delivered", "")


def test_what_no_worker_has_taken_up_says_so_and_what_is_for_the_digest_is_not_waited_for() -> None:
    assert fate().message == "not sent so far"
    assert fate().because.endswith("a replay sends nothing")
    (found,) = fates([{**ALERT, "severity": "digest"}], [], [], {"al_1": {}}, 9)
    assert (found.message, found.because) == (
        "too few dollars for a message, or known from the attempt before",
        "",
    )


def test_a_silence_that_was_set_later_says_until_when() -> None:
    silence = {
        "kind": "silence", "name": "s", "by": "ada", "source": "t", "alert_id": "", "match": [("rule", "traffic")], "begins_ms": 7, "time_ms": 7,
        "until_ms": 3_600_000, "recurring": "", "removed": False, "fault": "",
    }  # fmt: skip
    (found,) = fates([ALERT], [], [silence], {"al_1": {"rule": "traffic"}}, 9)
    assert found.because.startswith(
        "silence/s by ada until 1970-01-01 01:00:00 UTC: set later, withholds its end"
    )


def test_once_it_was_sent_it_is_usual_no_more() -> None:
    found = fate(("ada", "usual", WHY, 0), ("https://hooks.example.com", "delivered", "", 1))
    assert (found.message, found.because) == ("delivered", "")


PAGE: dict[str, Any] = {**ALERT, "severity": "page", "owner": "ada", "team": "vision", "changed_ms": 0}
CONTROL: dict[str, Any] = {
    "by": "ada", "source": "web", "removed": False, "fault": "", "recurring": "", "alert_id": "", "match": {},
    "begins_ms": 0, "until_ms": None, "time_ms": 0,
}  # fmt: skip
VALUE = '{"escalate": ["grace", "lead"], "escalate_after_min": 10}'
MINUTE_MS = 60_000


def of_page(
    at_ms: int, *controls: dict[str, Any], receivers: tuple[str, ...] = (), value: str = VALUE
) -> MessageFate:
    rows = [
        {"alert_id": "al_1", "status": "firing", "receiver": name, "outcome": "delivered", "detail": "", "attempt": 1,
         "http_status": 200, "time_ms": 60_000}
        for name in ("https://hooks.example", *receivers)
    ]  # fmt: skip
    records = [
        {"kind": "owner", "name": "ada", "value": value},
        {"kind": "team", "name": "vision", "value": '{"escalate": ["boss"]}'},
    ]
    (found,) = fates([PAGE], rows, [{**CONTROL, **each} for each in controls], {"al_1": {}}, at_ms, records)
    return found


def test_a_page_says_who_was_told_when_and_who_is_next() -> None:
    found = of_page(MINUTE_MS)
    assert (found.message, found.because) == ("delivered", "")
    assert found.delivered == "https://hooks.example at 1970-01-01 00:01:00 UTC"
    assert found.next == "goes on to grace at 1970-01-01 00:10:00 UTC unless it is acknowledged"
    later = of_page(11 * MINUTE_MS, receivers=("https://hooks.example #for grace",))
    assert later.delivered.endswith("; https://hooks.example #for grace at 1970-01-01 00:01:00 UTC")
    assert later.next == "goes on to lead at 1970-01-01 00:20:00 UTC unless it is acknowledged"
    last = of_page(21 * MINUTE_MS, receivers=("https://hooks.example #for lead",))
    assert last.next == "nobody is left in `escalate`"
    assert (
        of_page(MINUTE_MS, value="").next
        == "goes on to boss at 1970-01-01 00:15:00 UTC unless it is acknowledged"
    )


def test_an_acknowledged_page_says_until_when_and_who_is_next_then() -> None:
    ack = {"kind": "ack", "name": "mine", "alert_id": "al_1", "until_ms": 60 * MINUTE_MS}
    found = of_page(MINUTE_MS, ack)
    assert found.because == "ack/mine by ada until 1970-01-01 01:00:00 UTC: not said again"
    assert found.next == (
        "not escalated while it is acknowledged until 1970-01-01 01:00:00 UTC; if it still fires then, "
        "it goes on to grace at 1970-01-01 01:10:00 UTC unless it is acknowledged"
    )
    for_good = of_page(MINUTE_MS, {**ack, "until_ms": None}).next
    assert for_good == "not escalated while it is acknowledged"
    told = of_page(MINUTE_MS, ack, receivers=("https://hooks.example #for lead",))
    assert told.next == ""  # nobody is left, and whoever acknowledged it knows


SILENCE: dict[str, Any] = {"kind": "silence", "name": "night", "match": {"team": "vision"}}


def silent_until(minutes: int | None, **other: Any) -> dict[str, Any]:
    return {**SILENCE, "until_ms": None if minutes is None else minutes * MINUTE_MS, **other}


def test_a_silenced_page_is_not_escalated_until_the_silence_ends() -> None:
    """Before and after the instant at which it would go on; what was held up is sent at the end, all at once."""
    for at_ms in (MINUTE_MS, 12 * MINUTE_MS):
        assert of_page(at_ms, silent_until(15)).next == (
            "not escalated while it is silenced until 1970-01-01 00:15:00 UTC; if it still fires then, "
            "it goes on to grace at 1970-01-01 00:15:00 UTC unless it is acknowledged"
        )
    assert "it goes on to grace at 1970-01-01 00:10:00 UTC" in of_page(MINUTE_MS, silent_until(5)).next
    assert "it goes on to grace, lead at 1970-01-01 01:00:00 UTC" in of_page(MINUTE_MS, silent_until(60)).next
    assert of_page(MINUTE_MS, silent_until(None)).next == "not escalated while it is silenced"
    # A match field that its row does not have may be what is asked: notifiers take it so.
    assert of_page(MINUTE_MS, silent_until(None, match={"zone": "b"})).next.startswith("not escalated")
    assert of_page(MINUTE_MS, silent_until(None, match={"team": "other"})).next.startswith("goes on to grace")


def test_silences_that_follow_one_another_and_acknowledgements_count_together() -> None:
    ack = {"kind": "ack", "name": "mine", "alert_id": "al_1", "until_ms": 60 * MINUTE_MS}
    found = of_page(MINUTE_MS, silent_until(20), silent_until(30, name="then", begins_ms=20 * MINUTE_MS), ack)
    assert found.next == (
        "not escalated while it is silenced until 1970-01-01 00:30:00 UTC and acknowledged until "
        "1970-01-01 01:00:00 UTC; if it still fires then, it goes on to grace at 1970-01-01 01:10:00 UTC unless it is acknowledged"
    )
    nightly = silent_until(None, recurring='{"hours": "00:00-02:00"}')
    assert "silenced until 1970-01-01 02:00:00 UTC;" in of_page(MINUTE_MS, nightly).next


def test_of_a_page_that_was_silenced_as_it_fired_the_time_begins_with_the_end_of_the_silence() -> None:
    silenced = {**PAGE, "silenced": True}
    records = [{"kind": "owner", "name": "ada", "value": VALUE}]

    def said(*controls: dict[str, Any]) -> str:
        (found,) = fates([silenced], [], [{**CONTROL, **each} for each in controls], {"al_1": {"team": "vision"}}, MINUTE_MS, records)  # fmt: skip
        return found.next

    assert said(silent_until(30)).endswith(
        "it goes on to grace at 1970-01-01 00:40:00 UTC unless it is acknowledged"
    )
    assert said() == ""  # it has ended, and the next tick sends the alert


def test_what_was_sent_before_its_silence_says_since_when_and_by_whom_it_is_silenced() -> None:
    """A record of the page has no beginning: it is that of the record, and nothing before knew of it."""
    record = {**CONTROL, **silent_until(60), "begins_ms": None, "time_ms": 2 * MINUTE_MS}
    row = {"alert_id": "al_1", "receiver": "https://hooks.example", "outcome": "delivered", "detail": "", "attempt": 1,
           "http_status": 200, "time_ms": MINUTE_MS}  # fmt: skip
    said = (
        "silenced since 1970-01-01 00:02:00 UTC by ada until 1970-01-01 01:00:00 UTC, silence/night: "
        "it had been sent before that, and its receivers are notified of the end as well"
    )
    over = {"silenced": True, "resolved_ms": 3 * MINUTE_MS, "changed_ms": 3 * MINUTE_MS}
    for status, more in (("firing", {}), ("resolved", over)):
        (found,) = fates(
            [{**PAGE, **more}],
            [{**row, "status": status}],
            [record],
            {"al_1": {"team": "vision"}},
            4 * MINUTE_MS,
        )
        assert (found.message, found.because) == ("delivered", said)
    (unsent,) = fates([PAGE], [], [record], {"al_1": {"team": "vision"}}, 4 * MINUTE_MS)
    assert unsent.because.startswith(
        "silence/night by ada until 1970-01-01 01:00:00 UTC: set later, withholds its end"
    )
    again = [{**row, "status": "firing"}, {**row, "status": "firing", "receiver": "ada", "attempt": 0, "outcome": "silenced", "detail": "a silence covers it"}]  # fmt: skip
    (both,) = fates([{**PAGE, "silenced": True}], again, [], {"al_1": {"team": "vision"}}, 4 * MINUTE_MS)
    assert both.message == "delivered; silenced"
    assert (
        both.because
        == "a silence covered it: it had been sent before that, and its receivers are notified of the end as well"
    )


def test_a_planned_rate_in_force_is_said_with_its_end() -> None:
    plan = {"kind": "planned", "name": "wide", "usd_per_hour": Decimal(160), "until_ms": 60 * MINUTE_MS}
    assert (
        of_page(MINUTE_MS, plan).because
        == "planned/wide by ada: $160/h planned until 1970-01-01 01:00:00 UTC"
    )


def test_what_was_set_after_the_alert_is_said_too() -> None:
    whole: dict[str, Any] = {
        "by": "ada", "source": "web", "removed": False, "fault": "", "recurring": "", "alert_id": "", "match": {},
        "until_ms": None, "time_ms": 0,
    }  # fmt: skip
    silence = {**whole, "kind": "silence", "name": "night", "begins_ms": 7}
    ack = {**whole, "kind": "ack", "name": "mine", "alert_id": "al_1", "begins_ms": 8}
    (found,) = fates([ALERT], [], [silence, ack], {"al_1": {}}, 9)
    assert found.because.startswith(
        "silence/night by ada: set later, withholds its end; ack/mine by ada: not said again"
    )
    (before,) = fates([ALERT], [], [silence, ack], {"al_1": {}}, 6)
    assert "by ada" not in before.because
    (until,) = fates([ALERT], [], [{**silence, "begins_ms": 1, "until_ms": 3_600_000}], {"al_1": {}}, 9)
    assert until.because.startswith("silence/night by ada until 1970-01-01 01:00:00 UTC")


def test_a_fast_burn_that_opens_nothing_names_the_slower_one_that_flaps() -> None:
    (found,) = outranked({"burn_fast"}, [{**ALERT, "rule": "burn_sustained"}], 9)
    assert (found.rule, found.status) == ("burn_fast", "not opened")
    assert found.because == "burn_sustained (al_1) comes first"
