"""The rule `incident`: when alerts of one cause become one, and when that is over.

A function of the alerts' episodes alone, so that any cut of a log gives the same: an episode whose end is ten minutes old does
not begin again. Alerts about the jobs of a run that come one after another are one, too, as those of one job that flaps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from schemas.durations import DAY_MS, MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.resolving import resolved
from streams.engine.alerts.titles import TITLES
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS, QUIET_MS
from streams.engine.ledger_rules.episodes import opened, raised
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.incident import (
    CLUSTER,
    RUN,
    TOGETHER_MS,
    SharedAlert,
    are_incident,
    finding,
    is_standstill,
    minutes_after,
    of_run_at,
    operator_of,
    over_ms,
    severity_of,
    stand_together_at,
    stands_with,
)
from streams.engine.rules.rule import is_above

#: A price that was named explains what its jobs burn for so long.
EXPLAINED_MS = DAY_MS


def incident_changes(
    alerts: Iterable[SharedAlert],
    firing: Sequence[Alert],
    named_ms: Mapping[str, Sequence[int]],
    since_ms: int,
    until_ms: int,
    of: LedgerSettings,
    operators: Mapping[str, str],
) -> list[Alert]:
    """The changes at the whole minutes of (since_ms, until_ms], in order.

    Args:
        alerts: Those about jobs with a cause that began from `FLAPS_WITHIN_MS` before `since_ms` on, and before that the ones that
            alerts of `firing` are about.
        firing: The alerts of this rule.
        named_ms: When another rule's alert named a cause, by cause.
        since_ms: The last minute that was judged.
        until_ms: The last minute to judge.
        of: The settings; a rule that is off opens nothing.
        operators: Who gets what nobody's own people can mend: owners by the name of their record.
    """
    now = {alert.shared_cause: alert for alert in firing}
    changes: list[Alert] = []
    by_cause = sorted(alerts, key=lambda each: (each.cause, each.started_ms, each.job_id, each.rule))
    seen = set[str]()
    for cause, group in groupby(by_cause, lambda each: each.cause):
        of_cause, fires = list(group), now.get(cause)
        if fires is None or of_cause[-1].started_ms >= _since_ms(fires):
            seen.add(cause)
        operator = operators.get(operator_of(cause), "")
        span, named = (since_ms, until_ms), named_ms.get(cause, ())
        changes += _changes(of_cause, fires if cause in seen else None, named, span, of, operator)
    gone = (alert for cause, alert in now.items() if cause not in seen)
    changes += [resolved(alert, since_ms + MINUTE_MS) for alert in gone]
    return sorted(changes, key=lambda each: (each.changed_ms, each.subject_kind, each.subject_name))


def _changes(
    alerts: Sequence[SharedAlert],
    fires: Alert | None,
    named_ms: Sequence[int],
    span: tuple[int, int],
    of: LedgerSettings,
    operator: str,
) -> Iterator[Alert]:
    """Yield the changes of one cause, of alerts in order of their beginnings."""
    since_ms, until_ms = span
    stands = is_standstill(alerts[0].cause)
    began_ms = [each.started_ms for each in alerts]
    minutes = {minutes_after(each)[0] for each in began_ms}
    minutes |= {at(each) for each in alerts if each.resolved_ms is not None for at in (_over_ms, _quiet_ms)}
    minutes |= {minutes_after(ms)[0] for each in alerts for ms in (each.ticket_ms, each.page_ms) if ms}
    for at_ms in sorted(each for each in minutes if since_ms < each <= until_ms):
        if fires is not None:
            is_run, first = fires.subject_kind == RUN, bisect_left(began_ms, _since_ms(fires))
            members = alerts[first : bisect_left(began_ms, at_ms)]
            if is_run:
                members = [each for each in members if each.owner == fires.owner]
            elif stands:
                members = [each for each in members if stands_with(each.stood_ms, fires.stood_ms)]
            over_at = _quiet_ms if is_run else _over_ms
            if all(each.resolved_ms is not None and over_at(each) <= at_ms for each in members):
                yield resolved(fires, at_ms)
                fires = None
            else:
                members = members if is_run or stands else _covered(members, of)
                if is_above(severity_of(members, at_ms, of.thresholds, is_run=is_run), fires.severity):
                    fires = raised(
                        fires,
                        opened(finding(of, members, at_ms, operator, TITLES, is_run=is_run)),
                    )
                    yield fires
        if of.enabled and (fires is None or stands):
            of_one, is_run = _opening(
                alerts[bisect_left(began_ms, at_ms - FLAPS_WITHIN_MS) : bisect_left(began_ms, at_ms)],
                fires,
                named_ms,
                at_ms,
                of,
            )
            if of_one:
                if fires is not None:  # what the cluster stands still by now is another thing
                    yield resolved(fires, at_ms)
                fires = opened(finding(of, of_one, at_ms, operator, TITLES, is_run=is_run))
                yield fires


def _opening(
    known: Sequence[SharedAlert], fires: Alert | None, named_ms: Iterable[int], at_ms: int, of: LedgerSettings
) -> tuple[Sequence[SharedAlert], bool]:
    """The alerts that are an incident from a whole minute on, of those of the last hours, and whether they are of a run; none: there is none."""
    if not known:
        return (), False
    cause, jobs = known[0].cause, of.thresholds["jobs"]
    if is_standstill(cause):
        firing_ms = None if fires is None else fires.stood_ms
        others = (each for each in known if not stands_with(each.stood_ms, firing_ms))
        return stand_together_at(others, at_ms, jobs), False
    if any(at_ms - EXPLAINED_MS <= each <= at_ms for each in named_ms):
        return (), False
    recent = [each for each in known if each.started_ms >= at_ms - TOGETHER_MS]
    if are_incident(recent, of.thresholds):
        return recent, False
    return of_run_at(cause, known, at_ms, jobs), True


def _since_ms(fires: Alert) -> int:
    """From when on alerts of its cause are those that an incident tells of."""
    return fires.started_ms - (FLAPS_WITHIN_MS if fires.subject_kind in (RUN, CLUSTER) else TOGETHER_MS)


def _covered(members: Sequence[SharedAlert], of: LedgerSettings) -> list[SharedAlert]:
    """Those that nobody is notified of by themselves, as enough others are of their time."""
    near: dict[int, list[SharedAlert]] = {}
    for each in members:
        for at_ms in _minutes_of(each):
            near.setdefault(at_ms, []).append(each)
    are_covered = {at_ms for at_ms, others in near.items() if are_incident(others, of.thresholds)}
    return [each for each in members if are_covered.intersection(_minutes_of(each))]


def _minutes_of(alert: SharedAlert) -> range:
    return minutes_after(alert.started_ms)


def _over_ms(alert: SharedAlert) -> int:
    """The first whole minute at which the alert's episode cannot begin again."""
    assert alert.resolved_ms is not None
    return over_ms(alert.resolved_ms)


def _quiet_ms(alert: SharedAlert) -> int:
    """The first whole minute at which the alert's episode was over for as long as a run must be quiet."""
    assert alert.resolved_ms is not None
    return -(-(alert.resolved_ms + QUIET_MS) // MINUTE_MS) * MINUTE_MS
