"""To whom a page that fires goes on next, and when, as long as nobody acknowledges it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from streams.engine.alerts.receiver_records import ESCALATED, Escalation, receiver_record_of
from streams.engine.rules.formatting import instant
from streams.engine.rules.rule import PAGE
from streams.explain.acts import covers

#: Of each owner and team the newest record that was in the log by an instant.
ESCALATIONS: Final = """
SELECT kind, name, value FROM controls FINAL
WHERE kind IN ('owner', 'team') AND time <= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
  AND name IN {names:Array(String)}
ORDER BY offset DESC LIMIT 1 BY kind, name"""
_FOR_EVER: Final = float("inf")


def escalation_of(alert: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> Escalation | None:
    """Of an alert: as its owner's record says, else as its team's; `records`: rows of `ESCALATIONS`."""
    by_name = {
        (row["kind"], row["name"]): receiver_record_of(msgspec.json.decode(row["value"]))[0].escalation
        for row in records
        if row["value"]
    }
    return by_name.get(("owner", alert["owner"])) or by_name.get(("team", alert["team"]))


def next_recipient(
    alert: Mapping[str, Any],
    escalation: Escalation | None,
    deliveries: Sequence[Mapping[str, Any]],
    controls: Sequence[Mapping[str, Any]],
    at_ms: int,
) -> str:
    """Who gets it next, and when, unless it is acknowledged until then; '': nobody.

    Args:
        alert: A row of `alerts` that fires at the instant.
        escalation: Its own; None: it has none.
        deliveries: The rows of `deliveries` of it that say that it fires.
        controls: Rows of `IN_FORCE`.
        at_ms: The instant, ms since 1970.
    """
    if escalation is None or alert["severity"] != PAGE or alert["silenced"]:
        return ""
    owners, after_ms = escalation
    acks = [each for each in controls if each["kind"] == "ack" and each["alert_id"] == alert["alert_id"]]
    ends_ms = [_until(each) for each in acks if not each["removed"] and not each["fault"]]
    from_ms = max((alert["changed_ms"], *ends_ms))
    if from_ms == _FOR_EVER:
        return ""
    reached = {row["receiver"].rpartition(ESCALATED)[2] for row in deliveries if ESCALATED in row["receiver"]}
    place = max((owners.index(name) + 1 for name in reached.intersection(owners)), default=0)
    steps = 1 if from_ms > alert["changed_ms"] else place + 1  # after an acknowledgement the time begins anew
    # An owner without an address is passed over when it is that one's turn.
    while place < len(owners) and from_ms + steps * after_ms < at_ms:
        place, steps = place + 1, steps + 1
    if place == len(owners):
        return "nobody is left in `escalate`" if not any(covers(each, at_ms) for each in acks) else ""
    return f"goes on to {owners[place]} at {instant(from_ms + steps * after_ms)} unless it is acknowledged"


def _until(control: Mapping[str, Any]) -> float:
    return _FOR_EVER if control["until_ms"] is None else float(control["until_ms"])
