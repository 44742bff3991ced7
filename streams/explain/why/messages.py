"""What became of the message of an alert, and what kept it back: a silence, a rule before it, an address, a receiver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from schemas.units import nano_of_usd
from streams.engine.rules.formatting import instant, rounded_usd
from streams.engine.rules.registry import BURN_RULES
from streams.explain.acts import covers, matches, recurs, who
from streams.explain.why.next_recipient import escalation_of, next_recipient

#: The rules whose firing keeps another one from opening.
#: A slower burn keeps a fast one from opening while it flaps: otherwise it ends as the fast one opens.
_BEFORE: Final = {
    rule.name: (*rule.yields_to, *(other.name for other in BURN_RULES if other.long_ms > rule.long_ms))
    for rule in BURN_RULES
}
#: How long a rule stays silent after one of those cleared: the length of its shorter window.
_RESTS_MS: Final = {rule.name: rule.short_ms for rule in BURN_RULES}
_WORDS: Final = {
    "delivered": "delivered",
    "repeated": "delivered, and said again",
    "retrying": "the receiver does not take it",
    "failed": "the receiver did not take it",
    "refused": "the address may not be reached",
    "silenced": "silenced",
    "digest": "too few dollars for a message, or known from the attempt before",
    "in_incident": "one alert tells of its cause",
    "usual": "usual for its kind, sent once it is not",
    "waiting": "not sent so far",
    "no_receiver": "nobody to send it to",
    "unsupported": "an address of another kind",
    "inhibited": "muted until no page of its team fires",
    "superseded": "another message replaced it",
}
_TAKEN: Final = ("delivered", "repeated")
#: After these the message may still be sent.
_BEFORE_SENDING: Final = ("usual", "waiting")
_SENT_BEFORE: Final = ": it had been sent before that, and its receivers are notified of the end as well"
_UNTOUCHED: Final = "a worker sends it within a minute: it waits for others of its cause, and of its group; a replay sends nothing"


class MessageFate(NamedTuple):
    """What became of the message of one rule's alert."""

    alert_id: str  # '': the rule opened none
    rule: str
    status: str
    message: str
    because: str  # what kept it back
    delivered: str = ""  # by which receiver it was delivered, and when
    next: str = ""  # to whom it goes on, and when


def fates(
    alerts: Iterable[Mapping[str, Any]],
    deliveries: Sequence[Mapping[str, Any]],
    controls: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Mapping[str, str]],
    at_ms: int,
    receiver_records: Sequence[Mapping[str, Any]] = (),
) -> list[MessageFate]:
    """The fate of each alert's message.

    Args:
        alerts: Rows of `alerts` that had begun at the instant.
        deliveries: Their rows of `deliveries`.
        controls: Those in force, expired ones included.
        facts: What controls can match, by alert id.
        at_ms: The instant.
        receiver_records: Those of owners and teams, as `ESCALATIONS` reads them.
    """
    return [
        _fate(alert, deliveries, controls, facts[alert["alert_id"]], at_ms, receiver_records)
        for alert in alerts
    ]


def outranked(
    holding: AbstractSet[str], alerts: Sequence[Mapping[str, Any]], at_ms: int
) -> Iterator[MessageFate]:
    """Yield the burn rules among those that hold that open nothing, as another one fires or has just fired."""
    firing = {alert["rule"] for alert in alerts if is_firing(alert, at_ms)}
    for rule in sorted(holding & _BEFORE.keys() - firing):
        for alert in alerts:
            ended_ms = alert["resolved_ms"]
            if alert["rule"] in _BEFORE[rule] and (ended_ms is None or at_ms < ended_ms + _RESTS_MS[rule]):
                because = f"{alert['rule']} ({alert['alert_id']}) comes first"
                yield MessageFate("", rule, "not opened", "none", because)
                break


def is_firing(alert: Mapping[str, Any], at_ms: int) -> bool:
    """Whether an alert fired at an instant, as far as its row says."""
    return bool(
        alert["started_ms"] <= at_ms and (alert["resolved_ms"] is None or at_ms < alert["resolved_ms"])
    )


def _fate(
    alert: Mapping[str, Any],
    deliveries: Sequence[Mapping[str, Any]],
    controls: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
    at_ms: int,
    receiver_records: Sequence[Mapping[str, Any]],
) -> MessageFate:
    status = "firing" if is_firing(alert, at_ms) else "resolved"
    rows = [row for row in deliveries if (row["alert_id"], row["status"]) == (alert["alert_id"], status)]
    sent = [row for row in rows if row["outcome"] not in _BEFORE_SENDING]
    # What was withheld as usual, or waited, and was sent afterwards, waits no more.
    newest: dict[str, Mapping[str, Any]] = {row["receiver"]: row for row in sent or rows}  # in their order
    words = [said(row) for row in newest.values()]
    delivered = [
        f"{row['receiver']} at {instant(row['time_ms'])}"
        for row in newest.values()
        if row["outcome"] in _TAKEN
    ]
    because = [*_acts(alert, controls, facts, at_ms, is_sent=bool(delivered))]
    if alert["silenced"]:
        if not any("silence/" in each for each in because):
            because.append("a silence covered it" + (_SENT_BEFORE if delivered else ""))
        words = [(word, "" if word == _WORDS["silenced"] else each) for word, each in words]
    because += [each for _, each in words if each]
    message = "; ".join(dict.fromkeys(each for each, _ in words))
    if not message and not alert["silenced"]:
        is_digest = alert["severity"] == "digest"
        message = _WORDS["digest" if is_digest else "waiting"]
        because += [] if is_digest else [_UNTOUCHED]
    message = message or _WORDS["silenced"]
    then = ""
    if status == "firing":
        then = next_recipient(alert, escalation_of(alert, receiver_records), rows, controls, at_ms)
    return MessageFate(
        alert["alert_id"],
        alert["rule"],
        status,
        message,
        "; ".join(dict.fromkeys(because)),
        "; ".join(delivered),
        then,
    )


def _acts(
    alert: Mapping[str, Any],
    controls: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
    at_ms: int,
    *,
    is_sent: bool,
) -> Iterator[str]:
    """Yield the controls that keep messages of the alert back; `is_sent`: somebody has the message of its status."""
    changed_ms = min(alert["changed_ms"], at_ms)
    for control in controls:
        name = f"{control['kind']}/{control['name']} by {who(control)}"
        until = f" until {instant(control['until_ms'])}" if control["until_ms"] else ""
        if control["kind"] == "silence" and matches(control, facts):
            # A record that came after the change was not known to it, whenever it says that it begins.
            was_known = alert["silenced"] or control["time_ms"] <= changed_ms
            covered = was_known and covers(control, changed_ms)
            if not covered and not covers(control, at_ms):
                continue
            when = f" ({recurs(control)}){until}" if control["recurring"] else until
            if is_sent:
                yield f"silenced{_since(control, at_ms)} by {who(control)}{when}, silence/{control['name']}{_SENT_BEFORE}"
            else:
                yield f"{name}{when}" if covered else f"{name}{when}: set later, withholds its end"
        elif control["alert_id"] == alert["alert_id"] and covers(control, at_ms):
            yield f"{name}{until}: not said again"
        elif control["kind"] == "planned" and matches(control, facts) and covers(control, at_ms):
            yield f"{name}: {rounded_usd(nano_of_usd(control['usd_per_hour']))}/h planned{until}"


def _since(control: Mapping[str, Any], at_ms: int) -> str:
    """Since when a control holds: from its beginning, or its record; of one that recurs, or was ended, that is not when it began."""
    since_ms = control["time_ms"] if control["begins_ms"] is None else control["begins_ms"]
    is_known = not control["recurring"] and covers(control, since_ms) and since_ms <= at_ms
    return f" since {instant(since_ms)}" if is_known else ""


def said(row: Mapping[str, Any]) -> tuple[str, str]:
    """What became of a message to a receiver, and why, if it was not delivered."""
    words = _WORDS.get(row["outcome"], row["outcome"])
    if row["outcome"] in _TAKEN:
        return words, ""
    where = f"{row['receiver']}: " if row["receiver"] and row["attempt"] else ""
    status = f" ({row['http_status']})" if row["http_status"] else ""
    attempt = f", attempt {row['attempt']}" if row["attempt"] else ""
    return words, f"{where}{row['detail']}{status}{attempt}"
