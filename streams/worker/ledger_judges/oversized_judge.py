"""Judges the rule `oversized` at whole five minutes: reads how jobs began, and steps the alerts.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.columns import rows_of, values_of
from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.oversized_changes import oversized_changes
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.oversized import (
    ANNOUNCED,
    EVERY_MS,
    RATE_MS,
    FirstRate,
    History,
    finding,
    judged_ms,
)
from streams.worker.ledger_judges import oversized_sql
from streams.worker.ledger_judges.job_use import planned_nano
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore


class OversizedJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(
        self,
        of: LedgerSettings,
        firing: Sequence[Alert],
        since_ms: int,
        until_ms: int,
        controls: Controls,
    ) -> list[Alert]:
        """Return the changes at the whole five minutes, and hours, in (since_ms, until_ms]."""
        since_ms, until_ms = (at_ms // EVERY_MS * EVERY_MS for at_ms in (since_ms, until_ms))
        if until_ms <= since_ms:
            return []
        found = sorted(
            self._found(of, since_ms, until_ms, controls), key=lambda each: (each.at_ms, each.subject_name)
        )
        begin_ms, end_ms = (at_ms // HOUR_MS * HOUR_MS for at_ms in (since_ms, until_ms))
        now = {alert.subject_name: alert for alert in firing}
        jobs = sorted({*now, *(each.subject_name for each in found)})
        paid = self._paid(jobs, begin_ms, end_ms) if of.enabled else set()
        return oversized_changes(now, found, paid, range(begin_ms + HOUR_MS, end_ms + 1, HOUR_MS))

    def _found(
        self, of: LedgerSettings, since_ms: int, until_ms: int, controls: Controls
    ) -> Iterator[LedgerFinding]:
        if not of.enabled:
            return
        # A job that began in this minute is judged at `since_ms + EVERY_MS` at the earliest.
        bound = {"from_ms": since_ms - RATE_MS, "to_ms": until_ms - RATE_MS}
        began = [*rows_of(self._store.query(oversized_sql.BEGAN, bound))]
        if not began:
            return
        before = self._store.query(oversized_sql.BEFORE, bound)
        history = History(
            FirstRate(job_id, team, experiment, started_ms, nano * HOUR_MS // wall_ms)
            for job_id, team, experiment, started_ms, nano, wall_ms in zip(
                *map(values_of, before.columns), strict=True
            )
        )
        factor, jobs = of.thresholds["factor"], int(of.thresholds["jobs"])
        for row in began:
            rate = row["nano"] * HOUR_MS // RATE_MS
            job = FirstRate(row["job_id"], row["team"], row["experiment"], row["started_ms"], rate)
            usual = history.usual(job, jobs)
            if usual is None or not usual.exceeded_by(rate, factor):
                continue
            planned = planned_nano(controls, row, judged_ms(row["started_ms"]))
            known = planned or int(row["declared"].scaleb(9))
            if not known or rate > known * ANNOUNCED:
                yield finding(of, job, usual, row["owner"], row["project"])

    def _paid(self, jobs: Sequence[str], from_ms: int, to_ms: int) -> set[tuple[str, int]]:
        if from_ms >= to_ms:
            return set()
        rows = named_rows(self._store, oversized_sql.PAID, "jobs", jobs, from_ms=from_ms, to_ms=to_ms)
        return {(row["job_id"], row["at_ms"]) for row in rows}
