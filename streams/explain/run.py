"""Which jobs are one training run with a job, and what they cost together.

Asked in three steps, each of which says what the next one is to be asked for: about the job, about jobs that may be of its run,
and about the costs of those that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.counting import how_many
from schemas.durations import DAY_MS, NEVER_MS
from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS, nano_of_usd
from streams.engine.rules.formatting import short, usd
from streams.engine.rules.lineage import RunKey, RunSpan, jobs_of_run, run_job, run_key

#: So far back and ahead of a job its run is looked for.
_AROUND_MS: Final = 30 * DAY_MS
_COLUMNS: Final = (
    "job_id, owner, team, project, experiment, run_id, work_dir, labels, state,"
    " toUnixTimestamp64Milli(started) AS began_ms, toUnixTimestamp64Milli(ended) AS ended_ms"
)
_STARTED: Final = "toUnixTimestamp64Milli(assumeNotNull(started))"
_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)

JOB: Final = f"SELECT {_COLUMNS} FROM jobs FINAL WHERE job_id = {{job:String}}"

JOBS: Final = f"""
SELECT {_COLUMNS} FROM jobs FINAL
WHERE {USERS_JOBS} AND owner = {{owner:String}} AND team = {{team:String}} AND run_id = {{run_id:String}}
    AND ({{run_id:String}} != '' OR work_dir = {{work_dir:String}})
    AND started IS NOT NULL AND {_STARTED} >= {{from_ms:Int64}} AND {_STARTED} <= {{to_ms:Int64}}
ORDER BY started DESC LIMIT 100000"""

COSTS: Final = f"""
SELECT job_id, sum({_COST}) AS cost_usd, sum(toDecimal128(lost_cost_usd, 9)) AS lost_cost_usd
FROM job_hours FINAL WHERE job_id IN {{jobs:Array(String)}} GROUP BY job_id"""

#: Of a run of more jobs the newest ones are shown.
_JOBS_AT_MOST: Final = 200
_NAME_AT_MOST: Final = 48


class RunSearch(NamedTuple):
    """A job, what its run is known by, and the parameters of `JOBS`."""

    job_id: str
    key: RunKey
    bound: dict[str, object]


class FoundRun(NamedTuple):
    """The jobs of a run, the oldest first."""

    key: RunKey
    jobs: list[dict[str, Any]]

    @property
    def names(self) -> list[str]:
        """Their ids."""
        return [str(row["job_id"]) for row in self.jobs]


def search_of(rows: Sequence[Mapping[str, Any]]) -> RunSearch | None:
    """What to look for, of the answer to `JOB`; None: it is of no run but its own."""
    if not rows or rows[0]["began_ms"] is None:
        return None
    (row,), key = rows, run_key(run_job(rows[0]))
    if key is None:
        return None
    around = {"from_ms": row["began_ms"] - _AROUND_MS, "to_ms": row["began_ms"] + _AROUND_MS}
    about = {"owner": key.owner, "team": key.team, "run_id": key.run_id, "work_dir": key.work_dir}
    return RunSearch(str(row["job_id"]), key, {**around, **about})


def found_run(search: RunSearch, rows: Iterable[Mapping[str, Any]]) -> FoundRun | None:
    """The jobs of the run, of the answer to `JOBS`; None: there is no other."""
    alike = {str(row["job_id"]): dict(row) for row in rows if run_key(run_job(row)) == search.key}
    spans = [
        RunSpan(name, row["began_ms"], NEVER_MS if row["ended_ms"] is None else row["ended_ms"], row["state"])
        for name, row in alike.items()
    ]
    names = jobs_of_run(search.job_id, spans, is_declared=bool(search.key.run_id))
    return FoundRun(search.key, [alike[name] for name in names]) if len(names) > 1 else None


def run_detail(run: FoundRun, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The run with what its jobs cost, of the answer to `COSTS`."""
    costs = {str(row["job_id"]): row for row in rows}
    nothing = {"cost_usd": Decimal(0), "lost_cost_usd": Decimal(0)}
    jobs = [
        {
            **{name: row[name] for name in ("job_id", "state", "began_ms", "ended_ms")},
            **{name: costs.get(str(row["job_id"]), nothing)[name] for name in nothing},
        }
        for row in run.jobs
    ]
    return {
        "name": run.key.shown,
        "by": "run_id" if run.key.run_id else "name",
        "job_count": len(jobs),
        **{name: sum((Decimal(str(job[name])) for job in jobs), Decimal(0)) for name in nothing},
        "jobs": jobs[-_JOBS_AT_MOST:],
    }


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


def later_tries(run: Mapping[str, Any], opened_ms: int) -> LaterTries | None:
    """What of a run, as `run_detail` has it, began after an instant; None: nothing."""
    later = [job for job in run["jobs"] if job["began_ms"] >= opened_ms]
    if not later:
        return None
    lost = sum((Decimal(str(job["lost_cost_usd"])) for job in later), Decimal(0))
    return LaterTries(len(later), str(later[-1]["job_id"]), nano_of_usd(lost))
