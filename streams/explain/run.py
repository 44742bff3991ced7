"""The statements that find the jobs of one training run, and what they cost together.

Asked in three steps, each of which says what the next one is to be asked for: about the job, about jobs that may be of its run
(`streams.engine.rules.run_jobs` says which are), and about the costs of those that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.rules.run_jobs import FoundRun, RunSearch

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


def bound(search: RunSearch) -> dict[str, object]:
    """The parameters of `JOBS`."""
    key = search.key
    about = {"owner": key.owner, "team": key.team, "run_id": key.run_id, "work_dir": key.work_dir}
    return {"from_ms": search.from_ms, "to_ms": search.to_ms, **about}


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
