"""What `alerts why` says became of a message that was withheld as usual for its kind."""

from __future__ import annotations

from typing import Any

from streams.explain.why.messages import MessageFate, fates, outranked

ALERT: dict[str, Any] = {
    "alert_id": "al_1",
    "rule": "traffic",
    "started_ms": 5,
    "resolved_ms": None,
    "silenced": False,
    "severity": "ticket",
    "changed_ms": 5,
}
WHY = "usual for jobs named prep: 6 of the last 6 had up to $140/h of traffic"


def fate(*outcomes: tuple[str, str, str, int]) -> MessageFate:
    rows = [
        {"alert_id": "al_1", "status": "firing", "receiver": receiver, "outcome": outcome, "detail": detail,
         "attempt": attempt, "http_status": 200 if attempt else 0}
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
        "kind": "silence", "name": "s", "by": "ada", "source": "t", "alert_id": "", "match": [("rule", "traffic")], "begins_ms": 7,
        "until_ms": 3_600_000, "recurring": "", "removed": False, "fault": "",
    }  # fmt: skip
    (found,) = fates([ALERT], [], [silence], {"al_1": {"rule": "traffic"}}, 9)
    assert found.because.startswith(
        "silence/s by ada until 1970-01-01 01:00:00 UTC: set later, withholds its end"
    )


def test_once_it_was_sent_it_is_usual_no_more() -> None:
    found = fate(("ada", "usual", WHY, 0), ("https://hooks.example.com", "delivered", "", 1))
    assert (found.message, found.because) == ("delivered", "")


def test_what_was_set_after_the_alert_is_said_too() -> None:
    whole: dict[str, Any] = {
        "by": "ada", "source": "web", "removed": False, "fault": "", "recurring": "", "alert_id": "", "match": {},
        "until_ms": None,
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
