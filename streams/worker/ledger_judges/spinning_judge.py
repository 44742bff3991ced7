"""Looks at whole five minutes where the rule `spinning` holds: reads what the GPUs of jobs did.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.interactive import is_interactive
from streams.engine.rules.rule import wastes_enough
from streams.engine.rules.spinning import (
    LAG_MINUTES,
    LOOKBACK_MINUTES,
    NAME,
    JobMinutesUse,
    MinuteUse,
    finding,
)
from streams.worker.ledger_judges import job_use_sql
from streams.worker.ledger_judges.job_use import AlertedJobs, IsExplained, Look, nothing
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

EVERY_MS: Final = 5 * MINUTE_MS
#: Where activity is not sampled, a job is looked at whose power fell within so many minutes before the wait.
_FELL_MINUTES: Final = 30
#: What is paid is that of the last minutes.
_PAID_MINUTES: Final = 10


class SpinningJudge:
    """Call `look` for successive spans."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def look(self, of: LedgerSettings, firing: Sequence[Alert], instants: range) -> Look:
        """Read what is needed for these instants; what is returned is to be called for each of them, in order."""
        opened = {alert.subject_name: alert.started_ms for alert in firing}
        jobs = sorted(opened.keys() | self._candidates(of.thresholds, instants))
        if not jobs:
            return nothing
        first_ms = min([*opened.values(), instants[0]])
        bound = {
            "from_ms": first_ms - (2 * LOOKBACK_MINUTES + LAG_MINUTES) * MINUTE_MS,
            "to_ms": instants[-1] - LAG_MINUTES * MINUTE_MS,
        }
        use = self._use(jobs, bound)
        paid: dict[str, dict[int, int]] = {}
        since = {**bound, "from_ms": instants[0] - (LAG_MINUTES + _PAID_MINUTES) * MINUTE_MS}
        for row in named_rows(self._store, job_use_sql.PAID_BY_MINUTE, "jobs", jobs, **since):
            paid.setdefault(row["job_id"], {})[row["number"]] = row["nano"]
        known = AlertedJobs(self._store, jobs)
        thresholds = {job_id: _thresholds(of, bool(known.about(job_id)["progress"])) for job_id in jobs}
        minutes = {job_id: JobMinutesUse(use.get(job_id, {}), thresholds[job_id]) for job_id in jobs}

        def found(at_ms: int, is_explained: IsExplained) -> Iterator[LedgerFinding]:
            until = at_ms // MINUTE_MS - LAG_MINUTES
            for job_id in jobs:
                if job_id in opened:
                    opened_minute = opened[job_id] // MINUTE_MS - LAG_MINUTES
                    before_w = minutes[job_id].power_before_w(opened_minute) or 0
                    # While reports show that its work stands still it is the same, whatever its GPUs do meanwhile.
                    if minutes[job_id].goes_on(until, before_w) or known.stood(job_id, at_ms, rule="stalled"):
                        yield LedgerFinding(NAME, of.severity, "job", job_id, at_ms, "", "")
                        continue
                    del opened[job_id]
                since_ms = at_ms - (LAG_MINUTES + int(thresholds[job_id]["minutes"])) * MINUTE_MS
                if is_explained(job_id, since_ms) or known.stood(job_id, at_ms, since_ms):
                    continue
                if is_interactive(known.labels(job_id)):
                    continue
                spin = minutes[job_id].spin(until)
                rate = _nano_per_hour(paid.get(job_id, {}), until)
                if spin is not None and wastes_enough(rate, thresholds[job_id]):
                    opened[job_id] = at_ms
                    yield finding(of, job_id, spin, rate, at_ms, known.about(job_id))

        return found

    def _candidates(self, of: Mapping[str, float], instants: range) -> set[str]:
        """The jobs that were busy and did nothing for so many minutes of the span."""
        least = min(of["minutes"], of["reporting_minutes"])
        bound = {
            "from_ms": instants[0] - (LAG_MINUTES + int(least) + _FELL_MINUTES) * MINUTE_MS,
            "to_ms": instants[-1] - LAG_MINUTES * MINUTE_MS,
            "minutes": least,
            **{name: of[name] for name in ("sm_ratio", "tensor_ratio", "power_ratio")},
        }
        return {row["job_id"] for row in rows_of(self._store.query(job_use_sql.INACTIVE, bound))}

    def _use(self, jobs: Sequence[str], bound: Mapping[str, int]) -> dict[str, dict[int, MinuteUse]]:
        """What each job did by minute, of the newest attempt in it."""
        found: dict[str, dict[int, tuple[int, MinuteUse]]] = {}
        for row in named_rows(self._store, job_use_sql.BY_MINUTE, "jobs", jobs, **bound):
            of_job, number = found.setdefault(row["job_id"], {}), row["number"]
            if number not in of_job or row["attempt"] > of_job[number][0]:
                of_job[number] = row["attempt"], MinuteUse(*(row[name] for name in MinuteUse._fields))
        return {
            job_id: {number: use for number, (_, use) in of_job.items()} for job_id, of_job in found.items()
        }


def _thresholds(of: LedgerSettings, reports: bool) -> dict[str, float]:
    """Those of a job, which may report progress."""
    return {**of.thresholds, "minutes": of.thresholds["reporting_minutes" if reports else "minutes"]}


def _nano_per_hour(paid: Mapping[int, int], until: int) -> int:
    """What a job paid per hour in the last minutes."""
    nano = sum(paid.get(number, 0) for number in range(until - _PAID_MINUTES, until))
    return nano * HOUR_MS // (_PAID_MINUTES * MINUTE_MS)
