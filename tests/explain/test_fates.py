"""What `alerts why` says became of a message that was withheld as usual for its kind."""

from __future__ import annotations

from typing import Any

from streams.explain.why.messages import MessageFate, fates

ALERT: dict[str, Any] = {
    "alert_id": "al_1",
    "rule": "traffic",
    "started_ms": 5,
    "resolved_ms": None,
    "silenced": False,
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
    assert (found.message, found.because) == ("usual for its kind", WHY)


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
    assert (
        found.because == "silence/night by ada: set later, withholds its end; ack/mine by ada: not said again"
    )
    (before,) = fates([ALERT], [], [silence, ack], {"al_1": {}}, 6)
    assert before.because == ""
