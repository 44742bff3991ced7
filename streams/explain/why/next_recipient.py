"""To whom a page that fires goes on next, and when: as long as nobody acknowledges it, and no silence covers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from streams.engine.alerts.receiver_records import ESCALATED, Escalation, receiver_record_of
from streams.engine.rules.formatting import instant
from streams.engine.rules.rule import PAGE
from streams.explain.acts import covers, covers_until_ms, may_silence

#: Of each owner and team the newest record that was in the log by an instant.
ESCALATIONS: Final = """
SELECT kind, name, value FROM controls FINAL
WHERE kind IN ('owner', 'team') AND time <= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
  AND name IN {names:Array(String)}
ORDER BY offset DESC LIMIT 1 BY kind, name"""
_FOR_EVER: Final = float("inf")


class _Stop(NamedTuple):
    """What keeps a page from going on, and until when (ms since 1970)."""

    word: str
    until_ms: float


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
    """Who gets it next, and when, unless it is acknowledged until then, and what stops that meanwhile; '': nobody.

    Args:
        alert: A row of `alerts` that fires at the instant.
        escalation: Its own; None: it has none.
        deliveries: The rows of `deliveries` of it that say that it fires.
        controls: Rows of `IN_FORCE`.
        at_ms: The instant, ms since 1970.
    """
    if escalation is None or alert["severity"] != PAGE:
        return ""
    owners, after_ms = escalation
    acks = [each for each in controls if each["kind"] == "ack" and each["alert_id"] == alert["alert_id"]]
    ends_ms = [_until(each) for each in acks if not each["removed"] and not each["fault"]]
    acked = _Stop("acknowledged", max(ends_ms, default=0))
    silenced = _Stop("silenced", _silent_until_ms(alert, controls, at_ms))
    if alert["silenced"] and silenced.until_ms <= at_ms:
        return ""  # it has ended: the next tick sends the alert
    stops = [each for each in (silenced, acked) if at_ms < each.until_ms]
    if alert["silenced"]:  # its message is sent at the end of the silence, and the time begins then
        place, steps, from_ms = 0, 1, max(silenced.until_ms, acked.until_ms)
    else:
        from_ms = max(alert["changed_ms"], acked.until_ms)
        place = _place(owners, deliveries)
        # After an acknowledgement the time begins anew.
        steps = 1 if from_ms > alert["changed_ms"] else place + 1
    # An owner without an address is passed over when it is that one's turn.
    while place < len(owners) and not stops and from_ms + steps * after_ms < at_ms:
        place, steps = place + 1, steps + 1
    if place == len(owners):
        return "" if acked in stops else "nobody is left in `escalate`"
    if any(each.until_ms == _FOR_EVER for each in stops):
        return _stopped([each for each in stops if each.until_ms == _FOR_EVER])
    due_ms = [max(from_ms + (steps + at) * after_ms, silenced.until_ms) for at in range(len(owners) - place)]
    # What a silence held up is made up for at its end, all of it at once.
    next_to = ", ".join(owners[place + at] for at, each_ms in enumerate(due_ms) if each_ms == due_ms[0])
    goes_on = f"goes on to {next_to} at {instant(int(due_ms[0]))} unless it is acknowledged"
    return f"{_stopped(stops)}; if it still fires then, it {goes_on}" if stops else goes_on


def _stopped(stops: Sequence[_Stop]) -> str:
    words = (
        each.word if each.until_ms == _FOR_EVER else f"{each.word} until {instant(int(each.until_ms))}"
        for each in stops
    )
    return f"not escalated while it is {' and '.join(words)}"


def _place(owners: Sequence[str], deliveries: Sequence[Mapping[str, Any]]) -> int:
    """The place in `escalate` behind the last one who has it."""
    reached = {row["receiver"].rpartition(ESCALATED)[2] for row in deliveries if ESCALATED in row["receiver"]}
    return max((owners.index(name) + 1 for name in reached.intersection(owners)), default=0)


def _silent_until_ms(alert: Mapping[str, Any], controls: Sequence[Mapping[str, Any]], at_ms: int) -> float:
    """Until when silences cover an alert without a gap; 0: none does at the instant."""
    mine = [each for each in controls if may_silence(each, alert)]
    until_ms: float = at_ms
    for _ in range(len(mine)):
        now_ms = int(until_ms)
        longest_ms = max((covers_until_ms(each, now_ms) for each in mine if covers(each, now_ms)), default=0)
        if longest_ms <= until_ms:
            break
        until_ms = longest_ms
        if until_ms == _FOR_EVER:
            break
    return until_ms if until_ms > at_ms else 0


def _until(control: Mapping[str, Any]) -> float:
    return _FOR_EVER if control["until_ms"] is None else float(control["until_ms"])
