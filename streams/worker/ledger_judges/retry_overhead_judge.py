"""Judges the rule `retry_overhead` at whole hours, of training runs; calls block, so they belong in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Sequence

from schemas.durations import HOUR_MS
from schemas.units import NANO_PER_USD
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.retry_overhead import NAME, finding, holds
from streams.engine.rules.run_losses import RunLosses
from streams.worker.ledger_judges.instants import instants_of
from streams.worker.ledger_judges.reader import SqlStore
from streams.worker.ledger_judges.run_losses_reader import run_losses


def retry_overheads(
    store: SqlStore,
    of: LedgerSettings,
    firing: Sequence[Alert],
    changes: Iterable[Alert],
    since_ms: int,
    until_ms: int,
) -> list[Alert]:
    """The changes of the rule's alerts at the whole hours in (since_ms, until_ms].

    `firing`: its alerts that fire; `changes`: of other rules, what is not stored yet. Hour by hour: the alert that fires says
    which job of a run its next hour is about.
    """
    begin_ms, end_ms = (at_ms // HOUR_MS * HOUR_MS for at_ms in (since_ms, until_ms))
    if begin_ms == end_ms:
        return []
    found: list[RunLosses] = []
    if of.enabled:
        least_nano = round(of.thresholds["least_usd"] * NANO_PER_USD)
        names = {alert.subject_name for alert in firing}
        found = run_losses(store, least_nano, names, changes, begin_ms, end_ms)
    of_job = {name: each for each in found for name in each.jobs}

    def goes_on(alert: Alert, at_ms: int) -> bool:
        losses = of_job.get(alert.subject_name)
        return losses is not None and losses.goes_on(alert.subject_name, at_ms)

    now = {alert.subject_name: alert for alert in firing}
    changed: list[Alert] = []
    for at_ms in instants_of(begin_ms, end_ms, HOUR_MS):
        held = [each for losses in found for each in _held(of, losses, now.keys(), at_ms)]
        if not held and not now:
            continue
        for change in hourly_changes([*now.values()], held, (at_ms,), goes_on):
            changed.append(change)
            if change.status == FIRING:
                now[change.subject_name] = change
            else:
                del now[change.subject_name]
    return changed


def _held(of: LedgerSettings, losses: RunLosses, known: KeysView[str], at_ms: int) -> Iterator[LedgerFinding]:
    """Yield where it holds in the hour that ends then: about the job that an alert of the run is about, else its last one.

    Of an alert that fires already (`known`) only that it still holds counts.
    """
    for run in losses.runs(at_ms):
        if not losses.is_paid(run, at_ms):
            continue
        sums = losses.sums(run, at_ms)
        name = next((name for name in run if name in known), run[-1])
        if holds(of.thresholds, sums, fires=name in known):
            if name in known:
                yield LedgerFinding(NAME, of.severity, "job", name, at_ms, "", "")
                continue
            subject = losses.jobs[name].about
            shown = subject.job_id if losses.key is None else losses.key.shown
            yield finding(of, run, subject, shown, sums, at_ms)
