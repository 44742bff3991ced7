"""The SQL by which totals of budgets are read: hours up to an hour, minutes after it.

Only names of fixed lists go into a statement; values are bound as parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.reserved import FIRST_BACKFILL_SHARD, USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.alerts.budgets import MATCHED
from streams.engine.rules.similar_jobs import NUMBER
from streams.worker.ledger_judges.run_losses_sql import BACK
from streams.worker.ledger_judges.run_sql import ABOUT_COLUMNS
from streams.worker.shards.versions import LIFE_BITS

_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
#: Jobs with what budgets match, ids apart.
_JOBS: Final = "SELECT job_id, run_id, owner, team, project, experiment FROM jobs FINAL"
FROM_HOUR: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
_TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
_OPEN_STATES: Final = "('starting', 'running', 'suspended')"

#: Nobody waits for a backfill: it is of the past.
_OF_LOG: Final = f"shard < {FIRST_BACKFILL_SHARD}"

#: What the newest books of each shard say. A row of a former owner may stand beside them, of a topic that the new one has yet to read.
BOOKED: Final = """
SELECT shard, argMax(time, version) AS accrued, argMax(read_to, version) AS accrued_from, max(version) AS newest
FROM books FINAL GROUP BY shard"""

#: The books of a checkpoint are stored after its jobs, of which the first may have a part: until then nothing is complete.
#: An owner that takes a shard over puts books back before any other row; `life` says whose they are.
ACCRUED: Final = f"""
SELECT shard, toUnixTimestamp64Milli(least(accrued, accrued_from)) AS accrued_ms, bitShiftRight(newest, {LIFE_BITS}) AS life
FROM ({BOOKED}) WHERE {_OF_LOG}
UNION ALL
SELECT DISTINCT shard, toInt64(0) AS accrued_ms, toUInt64(0) AS life FROM jobs
WHERE {_OF_LOG} AND started IS NOT NULL AND shard NOT IN (SELECT shard FROM books)"""

#: Up to where all rows are stored: what a former owner stored beyond the newest books is taken back.
NEXT_OFFSETS: Final = f"""
SELECT topic, shard, if(life = max(life) OVER (PARTITION BY shard), next_offset, 0) AS stored_offset
FROM (SELECT topic, shard, next_offset, bitShiftRight(version, {LIFE_BITS}) AS life FROM books FINAL WHERE {_OF_LOG})"""

OPEN_SHARDS: Final = f"""
SELECT DISTINCT shard FROM jobs FINAL WHERE {_OF_LOG} AND started IS NOT NULL AND ended IS NULL AND state IN {_OPEN_STATES}"""

LAST_BUDGETS: Final = """
SELECT budget FROM budget_use FINAL WHERE time = (SELECT max(time) FROM budget_use) AND subject_kind != '' LIMIT 1"""

JUDGED: Final = """
SELECT count() AS budgets, toUnixTimestamp64Milli(max(time)) AS judged_ms FROM budget_use"""

FIRST_HOUR: Final = f"""
SELECT count() AS hours, toInt64(min(toUnixTimestamp(hour))) * 1000 AS first_ms FROM
(
    SELECT hour FROM job_hours WHERE {USERS_JOBS}
    UNION ALL SELECT hour FROM node_hours WHERE paid_ms > 0
)"""

#: How many rows the rules by the hour look at, by day; of rows that were written again since, former versions count.
ROWS_BY_DAY: Final = f"""
SELECT intDiv(toInt64(toUnixTimestamp(hour)), 86400) * 86400000 AS day_ms, count() AS rows
FROM (SELECT hour FROM job_hours UNION ALL SELECT hour FROM node_hours)
WHERE hour >= {FROM_HOUR} AND hour < {_TO}
GROUP BY day_ms ORDER BY day_ms"""

_SINCE: Final = "fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')"
_LIVE: Final = f"(ended IS NULL OR ended >= {_SINCE} - INTERVAL 1 HOUR)"
_RUN: Final = f"""
SELECT {", ".join(ABOUT_COLUMNS)}, state, budget, {_LIVE} AS is_live,
    toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(ended) AS ended_ms,
    toUnixTimestamp64Milli(deadline) AS deadline_ms
FROM jobs FINAL"""
RUNS: Final = f"""{_RUN}
WHERE {USERS_JOBS} AND {_LIVE} AND ({{is_any:Bool}} OR notEmpty(budget))
ORDER BY job_id"""

#: Jobs of these owners that may be of one run with one that goes on: as far back as jobs of a run are looked for.
RUNS_OF_OWNERS: Final = f"""{_RUN}
WHERE {USERS_JOBS} AND started >= {_SINCE} - {BACK} AND owner IN {{owners:Array(String)}}
ORDER BY job_id"""


def _fields(fields: Sequence[str], alias: str = "j") -> str:
    """The grouping columns; `job_id` is of the ledger's row.

    Raises:
        ValueError: A name is none of a budget's match fields.
    """
    if not set(fields) <= set(MATCHED):
        raise ValueError(f"{fields}: expected some of {MATCHED}")
    return ", ".join(f"{'x' if name == 'job_id' else alias}.{name} AS {name}" for name in fields)


def _grouped(fields: Sequence[str], *more: str) -> str:
    names = [*fields, *more]
    return f" GROUP BY {', '.join(names)}" if names else ""


def _select(fields: Sequence[str], rest: str) -> str:
    return f"SELECT {', '.join(filter(None, (_fields(fields), rest)))}"


def _wanted(fields: Sequence[str]) -> str:
    """The condition that a group is asked for; each field's values are a parameter of its name."""
    return "".join(
        f" AND {'x' if name == 'job_id' else 'j'}.{name} IN {{{name}:Array(String)}}" for name in fields
    )


def _certain(column: str) -> str:
    """The condition that leaves out what late shards accrued beyond the log that they have read."""
    return f"NOT (shard IN {{late:Array(UInt16)}} AND {column} >= toDateTime(intDiv({{cut_ms:Int64}}, 1000), 'UTC'))"


def before_sql(fields: Sequence[str], starts: int) -> str:
    """What each group used from each of some period starts (`start_0`...) until `from_ms`, by hours."""
    since = [f"x.hour >= toDateTime(intDiv({{start_{at}:Int64}}, 1000), 'UTC')" for at in range(starts)]
    sums = ", ".join(
        f"sumIf(x.cost, {each}) AS usd_{at}, toString(sumIf(toInt128(x.gpu_milli_ms), {each})) AS gpu_{at},"
        f" sumIf(x.wall_clock_ms, {each}) AS wall_{at}"
        for at, each in enumerate(since)
    )
    return f"""{_select(fields, sums)}
FROM
(
    SELECT job_id, hour, {_COST} AS cost, gpu_milli_ms, wall_clock_ms FROM job_hours FINAL
    WHERE {USERS_JOBS} AND hour < {FROM_HOUR} AND hour >= toDateTime(intDiv({{least:Int64}}, 1000), 'UTC') AND {_certain("hour")}
) AS x
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = x.job_id
WHERE 1{_wanted(fields)}{_grouped(fields)}"""


def hours_sql(fields: Sequence[str]) -> str:
    """What each group used in each hour of [from_ms, to_ms)."""
    sums = (
        "toInt64(toUnixTimestamp(x.hour)) * 1000 AS hour_ms, sum(x.cost) AS usd,"
        " toString(sum(toInt128(x.gpu_milli_ms))) AS gpu, sum(x.wall_clock_ms) AS wall"
    )
    return f"""{_select(fields, sums)}
FROM
(
    SELECT job_id, hour, {_COST} AS cost, gpu_milli_ms, wall_clock_ms FROM job_hours FINAL
    WHERE {USERS_JOBS} AND hour >= {FROM_HOUR} AND hour < {_TO} AND {_certain("hour")}
) AS x
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = x.job_id
WHERE 1{_wanted(fields)}{_grouped(fields, "hour_ms")} ORDER BY hour_ms"""


def minutes_sql(fields: Sequence[str]) -> str:
    """What each group used in each minute of [from_ms, to_ms)."""
    return f"""{_select(fields, "toInt64(toUnixTimestamp(x.minute)) * 1000 AS minute_ms, sum(x.cost_usd) AS usd, toString(sumIf(toInt128(x.quantity), x.component = 'gpu' AND x.unit = 'gpu_milli_ms')) AS gpu")}
FROM
(
    SELECT job_id, minute, component, unit, quantity, cost_usd FROM job_minutes FINAL
    PREWHERE minute >= {FROM_HOUR} AND minute < {_TO}
        AND job_id IN (SELECT job_id FROM job_hours WHERE hour >= {FROM_HOUR} AND hour < {_TO})
    WHERE quantity != 0 AND {USERS_JOBS} AND {_certain("minute")}
) AS x
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = x.job_id
WHERE 1{_wanted(fields)}{_grouped(fields, "minute_ms")} ORDER BY minute_ms"""


def wall_clock_sql(fields: Sequence[str]) -> str:
    """Each group's run time in each minute of [from_ms, to_ms)."""
    return f"""{_select(fields, "toInt64(toUnixTimestamp(x.minute)) * 1000 AS minute_ms, sum(x.ms) AS wall")}
FROM
(
    SELECT job_id, shard, toDateTime(hour + 60 * k, 'UTC') AS minute,
        toInt64(least(until_ms, 60000 * (k + 1))) - toInt64(greatest(from_ms, 60000 * k)) AS ms
    FROM
    (
        SELECT job_id, shard, hour, from_ms, until_ms FROM job_hours FINAL
        ARRAY JOIN wall_clock_from_ms AS from_ms, wall_clock_until_ms AS until_ms
        WHERE hour >= {FROM_HOUR} AND hour < {_TO} AND {USERS_JOBS}
    )
    ARRAY JOIN range(intDiv(from_ms, 60000), intDiv(until_ms + 59999, 60000)) AS k
    WHERE minute < {_TO} AND {_certain("minute")}
) AS x
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = x.job_id
WHERE 1{_wanted(fields)}{_grouped(fields, "minute_ms")} ORDER BY minute_ms"""


def live_sql(fields: Sequence[str]) -> str:
    """Return the jobs of one group that run, and whether any of their GPU-time has no price."""
    wanted = "".join(f" AND {name} IN {{{name}:Array(String)}}" for name in fields)
    live = (
        f"SELECT * FROM jobs FINAL WHERE {USERS_JOBS} AND state IN ('starting', 'running', 'metered'){wanted}"
    )
    return f"""SELECT l.job_id AS job_id, l.owner AS owner, l.team AS team, l.project AS project, l.experiment AS experiment, l.run_id AS run_id,
    l.state AS state, l.cluster AS cluster, u.unpriced > 0 AS is_unpriced
FROM ({live}) AS l
LEFT ANY JOIN
(
    SELECT job_id, max(unpriced_gpu_milli_ms) AS unpriced FROM job_hours FINAL
    WHERE job_id IN (SELECT job_id FROM ({live})) GROUP BY job_id
) AS u ON u.job_id = l.job_id
ORDER BY job_id"""


def top_sql(fields: Sequence[str]) -> str:
    """The kind of job of one group that pays most, of jobs that go on after [from_ms, to_ms), the hour before.

    Jobs of one team are of one kind by their experiment, else by their name without its running number; in a group of one
    experiment by the name. A job pays what it cost since its first minute in the hour.
    """
    experiment = "''" if "experiment" in fields else "any(j.experiment)"
    return f"""SELECT of_team, kind_by, kind, count() AS jobs, min(job_id) AS least_job_id, sum(rate) AS nano_per_hour
FROM
(
    SELECT x.job_id AS job_id, any(j.team) AS of_team, {experiment} AS of_experiment,
        replaceRegexpOne(x.job_id, '{NUMBER}', '') AS stem, if(of_experiment = '', 'name', 'experiment') AS kind_by,
        multiIf(of_experiment != '', of_experiment, stem != '', stem, x.job_id) AS kind,
        toInt64(min(toUnixTimestamp(x.minute))) * 1000 AS first_ms, toInt128(sum(toDecimal128(x.cost_usd, 9)) * 1000000000) AS nano,
        toInt64(intDiv(nano * 3600000, greatest(toInt128({{to_ms:Int64}}) - first_ms, toInt128(60000)))) AS rate
    FROM
    (
        SELECT job_id, minute, cost_usd FROM job_minutes FINAL
        PREWHERE minute >= {FROM_HOUR} AND minute < {_TO}
            AND job_id IN (SELECT job_id FROM job_hours WHERE hour >= toStartOfHour({FROM_HOUR}) AND hour < {_TO})
        WHERE quantity != 0 AND {USERS_JOBS}
    ) AS x
    LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = x.job_id
    WHERE x.job_id NOT IN (SELECT job_id FROM jobs FINAL WHERE ended <= fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC'))
        {_wanted(fields)} GROUP BY x.job_id
)
WHERE rate > 0 GROUP BY of_team, kind_by, kind ORDER BY nano_per_hour DESC, kind_by, kind, of_team LIMIT 1"""
