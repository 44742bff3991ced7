"""Keeps the changes of alerts that a replay offers, and makes episodes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from streams.backtest.fired import FiredAlert
from streams.engine.alerts.alert import FIRING, Alert, is_withheld
from streams.engine.alerts.meter_rules import METER
from streams.engine.rules.incident import RULE as INCIDENT
from streams.engine.rules.price_jump import RULE as PRICE_JUMP
from streams.engine.rules.rule import JOB
from streams.engine.rules.shared_cause import STANDSTILL_RULES
from streams.notify.history import AT_ONCE, StoredDeliveries
from streams.notify.incident_hold import (
    PRICE_SURE_MS,
    CauseAlerts,
    causes_of,
    covered,
    inhibited_by,
    inhibitors_in_runs,
    wait_of,
)
from streams.notify.kind_figures import KindFigures, figure_of
from streams.notify.kind_hold import verdicts
from streams.notify.options import NotifierOptions
from streams.notify.shared_cause_row import SharedCauseRow


class AlertRecorder:
    """An alert sink that remembers."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str, int], Alert] = {}

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Keep these changes of status; a repeated one counts once."""
        for alert in alerts:
            self._changes.setdefault((alert.alert_id, alert.status, alert.changed_ms), alert)

    def resume_receipts(self) -> None:
        """Do nothing."""

    def resume(self, shards: Iterable[int]) -> None:
        """Do nothing: a replay into an empty store resumes nothing."""

    def release(self, shards: Iterable[int]) -> None:
        """Do nothing: nobody takes over."""

    def episodes(self, records: StoredDeliveries, kinds: KindFigures) -> tuple[FiredAlert, ...]:
        """The episodes in the order in which they began, without those about the meter itself.

        Args:
            records: What the replay stored, which knows the runs of jobs.
            kinds: The same, which knows what is usual for their kinds.
        """
        by_id: dict[str, list[Alert]] = {}
        for alert in sorted(self._changes.values(), key=lambda alert: alert.changed_ms):
            if alert.subject_kind != METER:
                by_id.setdefault(alert.alert_id, []).append(alert)
        episodes = [changes for _, changes in sorted(by_id.items())]
        causes = _causes(episodes)
        ends = [changes[-1] for changes in episodes]
        ends += inhibitors_in_runs(records, ends)
        standing = {changes[0].subject_name for changes in episodes if changes[0].rule in STANDSTILL_RULES}
        clusters = records.clusters_of(standing)
        usual_until = _usual_until(kinds, [_in_all(changes) for changes in episodes])
        found = (
            _episode(changes, causes, clusters, ends, until_ms)
            for changes, until_ms in zip(episodes, usual_until, strict=True)
        )
        return tuple(sorted(found, key=_order))


def _in_all(changes: Sequence[Alert]) -> Alert:
    """The row of its beginning, with when it was over."""
    return msgspec.structs.replace(changes[0], resolved_ms=changes[-1].resolved_ms)


def _usual_until(kinds: KindFigures, episodes: Sequence[Alert]) -> list[int | None]:
    """Until when each of these was usual for its kind, 0 if it never was; None: to its end."""
    found = dict[str, int | None]()
    asked = [alert for alert in episodes if figure_of(alert) is not None]
    for begin in range(0, len(asked), AT_ONCE):
        some = asked[begin : begin + AT_ONCE]
        for alert, of in zip(some, verdicts(kinds, [(alert, 0) for alert in some]), strict=True):
            found[alert.alert_id] = 0 if of.beyond_ms == alert.started_ms else of.beyond_ms
    return [found.get(alert.alert_id, 0) for alert in episodes]


def _causes(episodes: Iterable[Sequence[Alert]]) -> dict[str, list[SharedCauseRow]]:
    """The episodes of each cause that alerts share."""
    causes: dict[str, list[SharedCauseRow]] = {}
    for changes in episodes:
        first, last = changes[0], changes[-1]
        if first.shared_cause:
            causes.setdefault(first.shared_cause, []).append(
                SharedCauseRow(
                    first.shared_cause, first.alert_id, first.rule, first.subject_kind, first.subject_name,
                    first.started_ms, last.resolved_ms, first.owner, first.stood_ms,
                )
            )  # fmt: skip
    return causes


def _is_covered(
    alert: Alert,
    causes: Mapping[str, Sequence[SharedCauseRow]],
    clusters: Mapping[str, str],
) -> bool:
    """Whether another alert tells of its cause, by what is known when the wait for others, of the default length, is over."""
    shares = causes_of(alert, clusters)
    if not shares or alert.subject_kind != JOB:
        return False
    by_ms = alert.started_ms + wait_of(alert, NotifierOptions.incident_wait_ms)
    # Not by the price list, which has corrections that came later.
    if any(row.rule == PRICE_JUMP.name for row in causes.get(alert.shared_cause, ())):
        by_ms += PRICE_SURE_MS
    known = {
        cause: CauseAlerts([row for row in causes.get(cause, ()) if row.started_ms <= by_ms])
        for cause in shares
    }
    return bool(covered(alert, shares, known, round(INCIDENT.thresholds["jobs"].default)))


def _episode(
    changes: list[Alert],
    causes: Mapping[str, Sequence[SharedCauseRow]],
    clusters: Mapping[str, str],
    ends: Sequence[Alert],
    usual_until_ms: int | None,
) -> FiredAlert:
    fired = [alert for alert in changes if alert.status == FIRING] or changes[:1]
    is_covered = _is_covered(fired[0], causes, clusters) or inhibited_by(fired[0], ends)
    sent = [] if is_covered else [alert for alert in fired if not is_withheld(alert)]
    if usual_until_ms is None:
        sent = []
    elif usual_until_ms and sent:
        # What was withheld is sent once then.
        withheld = [alert for alert in sent if alert.changed_ms <= usual_until_ms]
        sent = [*withheld[-1:], *sent[len(withheld) :]]
    first = fired[0]
    return FiredAlert(
        rule=first.rule,
        severity=first.severity,
        subject_kind=first.subject_kind,
        subject=first.subject_name,
        started_ms=first.started_ms,
        resolved_ms=changes[-1].resolved_ms,
        summary=first.summary,
        messages=len(sent),
        silenced=sum(alert.silenced for alert in fired),
        withheld_until_ms=usual_until_ms or 0,
    )


def _order(alert: FiredAlert) -> tuple[int, str, str, str]:
    return alert.started_ms, alert.rule, alert.subject_kind, alert.subject
