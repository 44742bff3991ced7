"""Looks at whole half hours where the rule `inefficient` holds: reads what the GPUs of jobs did.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from schemas.columns import rows_of
from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.inefficient import (
    AGAIN_MS,
    LAG_MS,
    NAME,
    SLOT_MS,
    SM,
    TENSOR,
    GpuPaid,
    JobUse,
    LowUse,
    finding,
    holds,
    slots_of,
)
from streams.engine.rules.interactive import is_interactive
from streams.engine.rules.oversized import ANNOUNCED
from streams.engine.rules.similar_jobs import stem_of
from streams.worker.ledger_judges import job_use_sql
from streams.worker.ledger_judges.job_use import AlertedJobs, IsExplained, Look, nothing
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore


class InefficientJudge:
    """Call `look` for successive spans."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def look(self, of: LedgerSettings, firing: Sequence[Alert], instants: range, controls: Controls) -> Look:
        """Read what is needed for these instants; what is returned is to be called for each of them, in order."""
        least, fires = slots_of(of.thresholds), {alert.subject_name for alert in firing}
        bound = {
            "from_ms": instants[0] - LAG_MS - max(least, 2) * SLOT_MS,
            "to_ms": instants[-1] - LAG_MS,
        }
        low = self._low(of.thresholds, bound)
        low = {job_id: of_job for job_id, of_job in low.items() if len(of_job) >= least or job_id in fires}
        if not low:
            return nothing
        jobs = sorted(low)
        paid: dict[str, dict[int, GpuPaid]] = {}
        for row in named_rows(self._store, job_use_sql.PAID_BY_HALF_HOUR, "jobs", jobs, **bound):
            paid.setdefault(row["job_id"], {})[row["slot"]] = GpuPaid(row["nano"], row["gpu_milli_ms"])
        alerted = AlertedJobs(self._store, jobs)
        said = self._said(instants)

        def found(at_ms: int, is_explained: IsExplained) -> Iterator[LedgerFinding]:
            last = at_ms // SLOT_MS - 1
            for job_id in jobs:
                if job_id in fires and (last in low[job_id] or last - 1 in low[job_id]):
                    yield LedgerFinding(NAME, of.severity, "job", job_id, at_ms, "", "")
                    continue
                fires.discard(job_id)
                use = _low_use(of.thresholds, low[job_id], paid.get(job_id, {}), last, least)
                about = alerted.about(job_id)
                # Half hours in which another rule named what its GPUs did show nothing more.
                since_ms = at_ms - LAG_MS - least * SLOT_MS
                kind = about["team"], stem_of(job_id)
                if (
                    use is None
                    or not holds(use, of.thresholds)
                    or is_explained(job_id, since_ms)
                    or alerted.stood(job_id, at_ms, since_ms)
                    or is_interactive(alerted.labels(job_id))
                    or any(at_ms - AGAIN_MS < each < at_ms for each in said.get(kind, ()))
                ):
                    continue
                rate = use.paid.nano * HOUR_MS // (use.slots * SLOT_MS)
                if rate > alerted.planned(controls, job_id, at_ms) * ANNOUNCED:
                    fires.add(job_id)
                    said.setdefault(kind, []).append(at_ms)
                    yield finding(of, job_id, use, at_ms, about)

        return found

    def _low(self, of: Mapping[str, float], bound: Mapping[str, int]) -> dict[str, dict[int, JobUse]]:
        """The half hours of each job in which its GPUs were busy and did little."""
        names = ("busy_ratio", "sm_ratio", "tensor_ratio")
        found: dict[str, dict[int, JobUse]] = {}
        for row in rows_of(
            self._store.query(job_use_sql.LOW, {**bound, **{name: of[name] for name in names}})
        ):
            use = JobUse(*(row[name] for name in JobUse._fields))
            if use.is_low(SM, of) or use.is_low(TENSOR, of):
                found.setdefault(row["job_id"], {})[row["slot"]] = use
        return found

    def _said(self, instants: range) -> dict[tuple[str, str], list[int]]:
        """When alerts opened about jobs of a team and a name."""
        bound = {"rule": NAME, "from_ms": max(instants[0] - AGAIN_MS, 0), "to_ms": instants[-1]}
        found: dict[tuple[str, str], list[int]] = {}
        for row in rows_of(self._store.query(job_use_sql.OPENED, bound)):
            found.setdefault((row["team"], stem_of(row["subject_name"])), []).append(row["started_ms"])
        return found


def _low_use(
    of: Mapping[str, float], low: Mapping[int, JobUse], paid: Mapping[int, GpuPaid], last: int, least: int
) -> LowUse | None:
    """A job that did little in each of the last half hours, by one measure, and was paid in all of them."""
    slots = range(last - least + 1, last + 1)
    if not all(slot in low and slot in paid for slot in slots):
        return None
    for measure in (SM, TENSOR):
        if all(low[slot].is_low(measure, of) for slot in slots):
            use = reduce(JobUse.plus, (low[slot] for slot in slots))
            total = GpuPaid(*map(sum, zip(*(paid[slot] for slot in slots), strict=True)))
            return LowUse(measure, least, use, total)
    return None
