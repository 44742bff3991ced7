"""Whose jobs are, and when alerts of their shards stood that name the same cause; read once for some jobs.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from schemas.durations import NEVER_MS
from streams.engine.alerts.controls import Controls
from streams.engine.kernels.episode_steps import REOPENS_MS
from streams.engine.rules.finding import LedgerFinding
from streams.engine.state.dimensions import MATCHED, AlertDimensions
from streams.worker.ledger_judges import job_use_sql
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

#: Whether another rule tells of what a job's GPUs do at the instant that is judged, or did at or after an earlier one (ms).
IsExplained: TypeAlias = Callable[[str, int], bool]
#: Where a rule holds at an instant.
Look: TypeAlias = Callable[[int, IsExplained], Iterable[LedgerFinding]]
#: Rules that shards judge and that name the cause of what a job's GPUs do.
_OF_SHARDS: Final = ("stalled", "idle_gpus", "slow_progress")
_NOBODY: Final[Mapping[str, Any]] = {"owner": "", "team": "", "project": "", "labels": (), "progress": ()}


def nothing(_at_ms: int, _is_explained: IsExplained) -> Iterable[LedgerFinding]:
    """The look of a rule that holds nowhere."""
    return ()


def planned_nano(controls: Controls, row: Mapping[str, Any], at_ms: int) -> int:
    """The rate that is planned for the job of a row at an instant, in nano-dollars per hour; 0: none is."""
    known = {name: row[name] for name in MATCHED if name in row}  # a job's row has neither zone nor account
    spans = controls.planned_for(AlertDimensions(**known))
    return next((rate for from_ms, until_ms, rate in spans if from_ms <= at_ms < until_ms), 0)


class AlertedJobs:
    """Of some jobs: whose they are, their labels, and when an alert of their shards stood, of these rules; without any about their work."""

    def __init__(self, store: SqlStore, jobs: Sequence[str], rules: Sequence[str] = _OF_SHARDS) -> None:
        self._about = {row["job_id"]: row for row in named_rows(store, job_use_sql.JOBS, "jobs", jobs)}
        self._alerted: dict[str, list[tuple[str, int, int]]] = {}
        for row in named_rows(store, job_use_sql.ALERTED, "jobs", jobs, rules=[*rules]):
            until_ms = NEVER_MS if row["until_ms"] is None else row["until_ms"]
            self._alerted.setdefault(row["subject_name"], []).append((row["rule"], row["from_ms"], until_ms))

    def about(self, job_id: str) -> Mapping[str, Any]:
        """The job's owner, team and project."""
        return self._about.get(job_id, _NOBODY)

    def labels(self, job_id: str) -> dict[str, str]:
        """The job's labels."""
        return dict(self.about(job_id)["labels"])

    def planned(self, controls: Controls, job_id: str, at_ms: int) -> int:
        """The rate that is planned for a job at an instant, in nano-dollars per hour; 0: none is."""
        return planned_nano(controls, {**self.about(job_id), "job_id": job_id}, at_ms)

    def stood(self, job_id: str, at_ms: int, since_ms: int | None = None, rule: str = "") -> bool:
        """Whether such an alert stood at an instant, or at some from `since_ms` on, or might have fired again; of one rule or any.

        One that cleared counts for as long as it may, so that it does not matter whether it is known yet that it did.
        """
        since_ms = at_ms if since_ms is None else since_ms
        return any(
            (not rule or rule == of) and from_ms <= at_ms and since_ms <= until_ms + REOPENS_MS
            for of, from_ms, until_ms in self._alerted.get(job_id, ())
        )
