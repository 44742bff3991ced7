"""GET /api/v1/experiments and /experiments/{name}: what experiments cost, and each trial's dollars beside its quality.

A trial is a job that names the experiment.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from schemas.reserved import USERS_JOBS
from streams.web import queries
from streams.web.figures import ApiFigures
from streams.web.store_reader import Row, StoreReader

Object = dict[str, Any]
#: Experiments in a list, trials of one: more are counted, and left out.
EXPERIMENTS_MAX: Final = 500
TRIALS_MAX: Final = 5_000
_NOTHING: Final = Decimal("0.000000000")

_RATE: Final = queries.rate_of("usd_per_hour_now")
_IN_EXPERIMENTS: Final = "job_id IN (SELECT job_id FROM jobs WHERE experiment != '')"
_IN_ONE: Final = "job_id IN (SELECT job_id FROM jobs WHERE experiment = {experiment:String})"

LIST: Final = f"""
SELECT j.experiment AS experiment, count() AS trials, countIf({_RATE} > 0) AS trials_live,
       countIf(j.state = 'completed') AS trials_completed, countIf(j.state = 'failed') AS trials_failed,
       countIf(j.state = 'cancelled') AS trials_cancelled,
       sum(c.cost_usd) AS cost_usd, sum(c.lost_cost_usd) AS lost_cost_usd, sum({_RATE}) AS usd_per_hour_now,
       arraySlice(arraySort(groupUniqArray(8)(j.team)), 1, 8) AS teams,
       arraySort(groupUniqArrayArray(64)(mapKeys(j.quality))) AS qualities,
       toUnixTimestamp64Milli(min(j.first_event)) AS began_ms, toUnixTimestamp64Milli(max(j.last_event)) AS last_ms,
       count() OVER () AS experiments
FROM (SELECT * FROM jobs FINAL WHERE {USERS_JOBS} AND experiment != '') AS j
LEFT ANY JOIN ({queries.latest(_IN_EXPERIMENTS)}) AS b ON b.job_id = j.job_id
LEFT ANY JOIN ({queries.total_costs(_IN_EXPERIMENTS)}) AS c ON c.job_id = j.job_id
GROUP BY j.experiment ORDER BY cost_usd DESC, experiment LIMIT {{limit:UInt64}}
{queries.SETTINGS}"""

TRIALS: Final = f"""
SELECT j.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, j.state AS state, j.attempts AS attempts,
       toFloat64(j.gpu_count) AS gpu_count, j.gpu_type AS gpu_type, j.quality AS quality, j.progress AS progress,
       toUnixTimestamp64Milli(j.started) AS started_ms, toUnixTimestamp64Milli(j.ended) AS ended_ms,
       j.wall_clock_ms AS wall_clock_ms, c.cost_usd AS cost_usd, c.lost_cost_usd AS lost_cost_usd, c.gpu_h AS gpu_h,
       c.unpriced_gpu_h AS unpriced_gpu_h, {_RATE} AS usd_per_hour_now, count() OVER () AS trials
FROM (SELECT * FROM jobs FINAL WHERE {USERS_JOBS} AND experiment = {{experiment:String}}) AS j
LEFT ANY JOIN ({queries.latest(_IN_ONE)}) AS b ON b.job_id = j.job_id
LEFT ANY JOIN ({queries.total_costs(_IN_ONE)}) AS c ON c.job_id = j.job_id
ORDER BY c.cost_usd DESC, job_id LIMIT {{limit:UInt64}}
{queries.SETTINGS}"""


class Experiments:
    """The experiments of a store; each answer is kept as long as live figures are."""

    def __init__(self, reader: StoreReader, figures: ApiFigures) -> None:
        self._reader = reader
        self._figures = figures

    async def all(self) -> Object:
        """All experiments, the dearest first.

        Raises:
            ApiError: The store is not open, or failed.
        """

        async def make() -> Object:
            as_of_ms = await self._figures.as_of_ms()
            rows = await self._reader.rows(LIST, limit=EXPERIMENTS_MAX, since_ms=_since(as_of_ms))
            return {
                "as_of_ms": as_of_ms,
                "experiments": [_experiment(row) for row in rows],
                "left_out": _left_out(rows, "experiments"),
            }

        return await self._figures.kept("experiments", make)

    async def one(self, name: str) -> Object | None:
        """The trials of an experiment, the dearest first; None if no job names it.

        Raises:
            ApiError: The store is not open, or failed.
        """

        async def make() -> Object | None:
            as_of_ms = await self._figures.as_of_ms()
            rows = await self._reader.rows(
                TRIALS, experiment=name, limit=TRIALS_MAX, since_ms=_since(as_of_ms)
            )
            if not rows:
                return None
            left_out = _left_out(rows, "trials")
            trials = [_trial(row) for row in rows]
            return {
                "as_of_ms": as_of_ms,
                "experiment": name,
                "cost_usd": sum((trial["cost_usd"] for trial in trials), _NOTHING),
                "lost_cost_usd": sum((trial["lost_cost_usd"] for trial in trials), _NOTHING),
                "usd_per_hour_now": sum((trial["usd_per_hour_now"] for trial in trials), _NOTHING),
                "trials": trials,
                "left_out": left_out,
            }

        return await self._figures.kept(("experiment", name), make)


def _since(as_of_ms: int) -> int:
    return max(0, as_of_ms - queries.LIVE_MS)


def _left_out(rows: list[Row], counted: str) -> int:
    return rows[0][counted] - len(rows) if rows else 0


def _experiment(row: Row) -> Object:
    return {name: cell for name, cell in row.items() if name != "experiments"}


def _trial(row: Row) -> Object:
    trial = {name: cell for name, cell in row.items() if name != "trials"}
    trial["quality"], trial["progress"] = dict(row["quality"]), dict(row["progress"])
    trial["wall_clock_h"] = trial.pop("wall_clock_ms") / 3_600_000
    for name in ("cost_usd", "lost_cost_usd", "usd_per_hour_now"):
        trial[name] = trial[name] or _NOTHING
    return trial
