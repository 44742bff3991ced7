"""Finds records that change minutes which are over: the rules across jobs judge those minutes before such a record is metered.

The ledger has the last word on each minute only, so what was known before is gone after it. Events that
merely come late are none of these: they are few seconds late as a rule, and each would be a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from schemas.durations import MINUTE_MS
from schemas.events import ControlEvent, Event, JobEvent, JobType, PriceEvent
from schemas.invalid import Invalid
from streams.engine.ledger_rules.subject import NEXT_ATTEMPT_MS
from streams.replay.lines import Sendable
from streams.worker.ledger_judges.reader import SqlStore

_ENDS: Final = (JobType.completed, JobType.failed, JobType.cancelled, JobType.preempted)
#: Of a job: what budgets and owners go by.
_NAMES: Final = ("owner", "team", "project", "experiment", "run_id")
_JOBS: Final = """
SELECT job_id, owner, team, project, experiment, run_id, toUnixTimestamp64Milli(started) AS first_ms, notEmpty(budget) AS has_budget,
    toUnixTimestamp64Milli(deadline) AS deadline_ms, toUnixTimestamp64Milli(ended) AS ended_ms FROM jobs FINAL"""


class _Job(NamedTuple):
    """What the rules across jobs judge a job by, apart from what it used."""

    first_ms: int
    names: tuple[str, ...] = ("",) * len(_NAMES)
    limits: tuple[object, ...] = (None, None)  # its own budget and its deadline
    ended_ms: int | None = None


class LogParts:
    """The records of a log, cut before those that change minutes which are over, once a minute at most."""

    def __init__(
        self, records: Iterator[Sendable], is_revision: Callable[[Event | Invalid | None, int], bool]
    ) -> None:
        self._records = records
        self._is_revision = is_revision
        self._following: Sendable | None = None
        self._cut_ms = 0  # the last whole minute that was judged

    @property
    def following_ms(self) -> int | None:
        """The log time of the record before which the last part ended; None: it was the last one."""
        return None if self._following is None else self._following.log_ms

    def next(self) -> Iterator[Sendable]:
        """Yield the records of the next part."""
        if self._following is not None:
            yield self._following
            self._following = None
        for record in self._records:
            minute_ms = record.log_ms // MINUTE_MS * MINUTE_MS
            if self._is_revision(record.event, record.log_ms) and minute_ms > self._cut_ms:
                self._following, self._cut_ms = record, minute_ms
                return
            yield record


class LedgerRevisions:
    """Call `is_one` for each record in log order."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._per_run: set[str] = set()  # budgets that each matching run has for itself

    def read(self, store: SqlStore, controls: Iterable[ControlEvent] = ()) -> None:
        """Take what was metered before the log; blocks."""
        for row in store.query(_JOBS).to_pylist():
            names = tuple(row[name] for name in _NAMES)
            limits = (True if row["has_budget"] else None, row["deadline_ms"])
            self._jobs[row["job_id"]] = _Job(row["first_ms"] or 0, names, limits, row["ended_ms"])
        for control in controls:
            self._see_control(control)

    def is_one(self, event: Event | Invalid | None, log_ms: int) -> bool:
        """Whether the record changes minutes before the one of its log time."""
        minute_ms = log_ms // MINUTE_MS * MINUTE_MS
        if isinstance(event, PriceEvent):
            return event.effective_ms < minute_ms and bool(self._jobs)
        if isinstance(event, ControlEvent):
            self._see_control(event)
        return isinstance(event, JobEvent) and self._is_job_changed(event, minute_ms, log_ms)

    def _see_control(self, event: ControlEvent) -> None:
        if event.kind == "budget":
            per: Any = event.value.get("per") or event.value.get("period")
            (self._per_run.add if per == "run" else self._per_run.discard)(event.name)

    def _is_job_changed(self, event: JobEvent, minute_ms: int, log_ms: int) -> bool:
        before = self._jobs.get(event.job_id)
        known = _Job(log_ms) if before is None else before
        said = (getattr(event, name) for name in _NAMES)
        names = tuple(old if new is None else new for old, new in zip(known.names, said, strict=True))
        budget = known.limits[0] if event.budget is None else tuple(sorted(map(str, event.budget.items())))
        limits = (budget, known.limits[1] if event.deadline_ms is None else event.deadline_ms)
        ended_ms = event.time_ms if event.type in _ENDS else None
        now = _Job(known.first_ms, names, limits, ended_ms)
        self._jobs[event.job_id] = now
        if before is None or before.first_ms >= minute_ms:
            return False
        has_budget = bool(budget or before.limits[0] or self._per_run)
        # A run that was over goes on.
        is_back = (
            before.ended_ms is not None and ended_ms is None and log_ms > before.ended_ms + NEXT_ATTEMPT_MS
        )
        return now.names != before.names or (has_budget and (now.limits != before.limits or is_back))
