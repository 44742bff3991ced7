"""The episodes of rules that are judged on the ledger: an alert fires while its rule holds.

What holds at an instant is handed in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import FIRING, Alert, alert_id
from streams.engine.alerts.resolving import resolved
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.rule import DIGEST, PAGE, margins_text


def hourly_changes(
    firing: Sequence[Alert],
    found: Iterable[LedgerFinding],
    hours: Sequence[int],
    goes_on: Callable[[Alert, int], bool] = lambda _alert, _at_ms: False,
) -> list[Alert]:
    """The changes at these instants (ends of hours, ascending): an episode lasts while its rule holds.

    `goes_on`: whether an alert stays in an hour in which its rule does not hold, as that says nothing against it.
    """
    now = {(alert.rule, alert.subject_kind, alert.subject_name): alert for alert in firing}
    at: dict[int, dict[tuple[str, str, str], LedgerFinding]] = {}
    for each in found:
        at.setdefault(each.at_ms, {})[each.subject] = each
    changes: list[Alert] = []
    for at_ms in _eventful(hours, at, now):
        holding = at.get(at_ms, {})
        over = [
            subject
            for subject, row in now.items()
            if subject not in holding and row.changed_ms < at_ms and not goes_on(row, at_ms)
        ]
        changes += [resolved(now.pop(subject), at_ms) for subject in over]
        for subject, each in sorted(holding.items()):
            if subject not in now:
                now[subject] = opened(each)
                changes.append(now[subject])
    return changes


def lasting_changes(
    firing: Sequence[Alert],
    found: Iterable[LedgerFinding],
    lasts: Callable[[Alert, int], bool],
    opens: Callable[[LedgerFinding], bool],
    instants: Sequence[int],
) -> list[Alert]:
    """As `hourly_changes`, of rules whose episodes go on for longer than they hold, and of which one at a time fires for a subject.

    `lasts`: whether an alert that fires goes on at an instant; `opens`: whether a finding opens one. Of several findings of a subject at an instant the last one counts.
    """
    now = {alert.subject_name: alert for alert in firing}
    at: dict[int, dict[str, LedgerFinding]] = {}
    for each in found:
        at.setdefault(each.at_ms, {})[each.subject_name] = each
    changes: list[Alert] = []
    for at_ms in _eventful(instants, at, now):
        holding = at.get(at_ms, {})
        over = [
            name
            for name, row in sorted(now.items())
            if (name not in holding or holding[name].rule != row.rule)
            and not lasts(row, at_ms)
            and row.changed_ms < at_ms
        ]
        changes += [resolved(now.pop(name), at_ms) for name in over]
        for name, each in sorted(holding.items()):
            if name not in now and opens(each):
                now[name] = opened(each)
                changes.append(now[name])
    return changes


def _eventful(instants: Sequence[int], found_ms: Iterable[int], fires: Collection[object]) -> Iterator[int]:
    """Yield the instants (ascending) at which anything may change: those with findings, and all while anything fires.

    A long history has millions of others. `fires` is read anew for each.
    """
    due_ms, place = sorted(found_ms), 0
    while place < len(instants):
        if not fires:
            later = bisect_left(due_ms, instants[place])
            if later == len(due_ms):
                return
            place = bisect_left(instants, due_ms[later], place)
            if place == len(instants):
                return
        yield instants[place]
        place += 1


def opened(found: LedgerFinding) -> Alert:
    """The alert that a finding opens."""
    return Alert(
        alert_id=alert_id(found.rule, found.subject_kind, found.subject_name, found.at_ms),
        rule=found.rule,
        severity=found.severity,
        status=FIRING,
        subject_kind=found.subject_kind,
        subject_name=found.subject_name,
        owner=found.owner,
        team=found.team,
        project=found.project,
        started_ms=found.at_ms,
        resolved_ms=None,
        ratio=round(found.ratio, 9),
        usd_nano_per_hour=min(max(found.usd_nano_per_hour, 0), MAX_COST_NANO),
        expected_nano_per_hour=0,
        cost_nano=min(max(found.cost_nano, 0), MAX_COST_NANO),
        window_ms=HOUR_MS,
        summary=found.summary,
        evidence_sql=found.evidence_sql,
        held_ms=found.at_ms,
        changed_ms=found.at_ms,
        firings=1,
        silenced=False,
        shared_cause=found.shared_cause,
        opened_nano_per_hour=min(max(found.usd_nano_per_hour, 0), MAX_COST_NANO),
        margins=margins_text(found.margins),
        stood_ms=found.stood_ms,
    )


def raised(fires: Alert, now: Alert) -> Alert:
    """An alert that has become more urgent: it fires anew, with the figures of now."""
    return replace(
        now,
        ticket_ms=now.changed_ms if fires.severity == DIGEST else fires.ticket_ms,
        page_ms=now.changed_ms if now.severity == PAGE else None,
        alert_id=fires.alert_id,
        started_ms=fires.started_ms,
        opened_nano_per_hour=fires.opened_nano_per_hour,
        margins=fires.margins,
        stood_ms=fires.stood_ms,
    )
