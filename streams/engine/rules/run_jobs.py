"""The jobs of a training run, found from one of them in rows of `jobs`, and those that followed an alert about it.

Instants of the rows are `began_ms` and `ended_ms`; None: it has not begun, or ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.counting import how_many
from schemas.durations import DAY_MS, NEVER_MS
from schemas.units import nano_of_usd
from streams.engine.rules.formatting import short, usd
from streams.engine.rules.lineage import RunKey, RunSpan, jobs_of_run, run_job, run_key

#: So far back and ahead of a job its run is looked for.
_AROUND_MS: Final = 30 * DAY_MS
_NAME_AT_MOST: Final = 48


class RunSearch(NamedTuple):
    """A job, what its run is known by, and between which instants other jobs of it may have begun."""

    job_id: str
    key: RunKey
    from_ms: int
    to_ms: int


class FoundRun(NamedTuple):
    """The jobs of a run, the oldest first."""

    key: RunKey
    jobs: list[dict[str, Any]]

    @property
    def names(self) -> list[str]:
        """Their ids."""
        return [str(row["job_id"]) for row in self.jobs]


def search_of(rows: Sequence[Mapping[str, Any]]) -> RunSearch | None:
    """What to look for, of the job's own row; None: it is of no run but its own."""
    if not rows or rows[0]["began_ms"] is None:
        return None
    (row,), key = rows, run_key(run_job(rows[0]))
    if key is None:
        return None
    return RunSearch(str(row["job_id"]), key, row["began_ms"] - _AROUND_MS, row["began_ms"] + _AROUND_MS)


def found_run(search: RunSearch, rows: Iterable[Mapping[str, Any]]) -> FoundRun | None:
    """The jobs of the run, of the rows that were read; None: there is no other."""
    alike = {str(row["job_id"]): dict(row) for row in rows if run_key(run_job(row)) == search.key}
    spans = [
        RunSpan(name, row["began_ms"], NEVER_MS if row["ended_ms"] is None else row["ended_ms"], row["state"])
        for name, row in alike.items()
    ]
    names = jobs_of_run(search.job_id, spans, is_declared=bool(search.key.run_id))
    return FoundRun(search.key, [alike[name] for name in names]) if len(names) > 1 else None


class LaterTries(NamedTuple):
    """The jobs of a run that began after an alert about it opened."""

    jobs: int
    last: str
    lost_nano: int

    def words(self, lost_nano: int) -> str:
        """What has happened since, to follow the sentence of the opening, when `lost_nano` were lost."""
        all_nano = lost_nano + self.lost_nano
        lost = f", {usd(all_nano)} of work lost in all" if all_nano else ""
        return f"{how_many(self.jobs, 'more job')} since, the last {short(self.last, _NAME_AT_MOST)}{lost}"


def later_tries(jobs: Iterable[Mapping[str, Any]], opened_ms: int) -> LaterTries | None:
    """What of the jobs of a run, the oldest first, each with `lost_cost_usd`, began after an instant; None: nothing."""
    later = [job for job in jobs if job["began_ms"] >= opened_ms]
    if not later:
        return None
    lost = sum((Decimal(str(job["lost_cost_usd"])) for job in later), Decimal(0))
    return LaterTries(len(later), str(later[-1]["job_id"]), nano_of_usd(lost))
