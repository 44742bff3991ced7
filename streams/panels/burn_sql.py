"""The SQL of burn rates over time: of the rows of `burn_rates` in a short range, of the hours of the ledger in a longer one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.durations import HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.panels.panel import (
    COST_COLUMNS,
    COST_SUM,
    FROM,
    FROM_TIME,
    IN_HOURS,
    JOBS_DRAWN,
    STEP,
    TEAMS,
    TO,
    TO_TIME,
    bucket,
    covered_hours,
    is_long,
    is_short,
)

LIVE_MINUTES: Final = 11
"""A burn rate stands until the job's next one, or for so long: rows of a job that burns are closer together."""
#: Ratios are kept for some days only, and each job has many: no more of a range is read than its end.
RATIO_S: Final = 6 * HOUR_MS // 1000
_RATES: Final = ("usd_per_hour_now", "usd_per_hour_15m", "usd_per_hour_1h", "expected_usd_per_hour")
_RATIO_FROM: Final = f"toDateTime(greatest({FROM}, {TO} - {RATIO_S}), 'UTC')"

#: The newest rows of a range's end that stand.
NEWEST: Final = (
    f"time <= {TO_TIME} AND time > (SELECT max(time) FROM burn_rates WHERE {USERS_JOBS} AND time <= {TO_TIME})"
    f" - INTERVAL {LIVE_MINUTES} MINUTE AND {USERS_JOBS}"
)


#: What minutes cost. The mean of a window is that of a job only where it is one job's: it begins with the job's first paid instant.
_SPENT: Final = f"FROM job_minutes FINAL WHERE {USERS_JOBS} AND quantity != 0"
#: What all jobs cost in the whole minutes of the last hour, and of six, per hour.
MEANS: Final = f"""
    WITH toStartOfMinute((SELECT max(time) FROM burn_rates WHERE {USERS_JOBS} AND time <= {TO_TIME})) AS until
    SELECT
        toDecimal128(sumIf(cost_usd, minute >= until - INTERVAL 1 HOUR), 9) AS of_1_h,
        toDecimal128(sum(cost_usd), 9) / 6 AS of_6_h
    {_SPENT} AND minute >= until - INTERVAL 6 HOUR AND minute < until"""


def newest_rates() -> str:
    """The current rates of each job that has any."""
    taken = ", ".join(f"tupleElement(rates, {at}) AS {name}" for at, name in enumerate(_RATES, start=1))
    return f"""
    SELECT job_id, {taken}
    FROM
    (
        SELECT job_id, argMax(tuple({", ".join(_RATES)}), (time, version)) AS rates
        FROM burn_rates
        WHERE {NEWEST}
        GROUP BY job_id
    )"""


def standing(values: Mapping[str, str], condition: str, series: str = "") -> str:
    """The sums of columns of `burn_rates` at each step of time, each row standing until the job's next one.

    A row ends in the step in which the next one begins, so of a job's rows within one step the last alone is counted, and of versions of a row the
    newest. The rows of a job lie together in the table: in its order, they are read without being kept.

    Args:
        values: Title -> column.
        condition: On rows.
        series: An expression over `s.job_id` and `j`, a row of `jobs`.
    """
    columns = ",\n        ".join(f'sum(value_{at}) AS "{title}"' for at, title in enumerate(values))
    taken = ", ".join(f"{column} AS value_{at}" for at, column in enumerate(values.values()))
    named = f"\n        {series} AS series," if series else ""
    join = (
        "\n    LEFT ANY JOIN (SELECT job_id, team FROM jobs FINAL) AS j ON j.job_id = s.job_id"
        if series
        else ""
    )
    return f"""
    SELECT
        toDateTime(step * {STEP}, 'UTC') AS time,{named}
        {columns}
    FROM
    (
        SELECT *, arrayJoin(range(toUInt64(first_step), toUInt64(least(following, intDiv({TO}, {STEP}) + 1)))) AS step
        FROM
        (
            SELECT
                *,
                first_step + toInt64(intDiv({LIVE_MINUTES * 60}, {STEP}) + 1) AS until,
                least(until, leadInFrame(first_step, 1, until)
                    OVER (PARTITION BY job_id ORDER BY at, version ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)) AS following
            FROM
            (
                SELECT
                    b.job_id AS job_id, b.time AS at, b.version AS version,
                    toInt64(intDiv(toUnixTimestamp(b.time), {STEP})) AS first_step,
                    {taken}
                FROM burn_rates AS b
                WHERE {condition}
            )
        )
        WHERE following > first_step
    ) AS s{join}
    WHERE step * {STEP} >= {FROM}
    GROUP BY time{", series" if series else ""}"""


_IN_SHORT: Final = f"b.time > {FROM_TIME} - INTERVAL {LIVE_MINUTES} MINUTE AND b.time <= {TO_TIME} AND {USERS_JOBS} AND {is_short()}"

#: The whole minutes of the hour before the end of a step, or of the range within it.
_STEP_END: Final = f"intDiv(least((step + 1) * {STEP}, {TO}), 60) * 60"
FLEET: Final = f"""
SELECT time, sum("now") AS "now", sum("1 h") AS "1 h", sum("expected") AS "expected"
FROM
(
    SELECT time, toNullable(toDecimal128("now", 9)) AS "now", toDecimal128(0, 9) AS "1 h", toNullable(toDecimal128("expected", 9)) AS "expected"
    FROM ({standing({"now": "b.usd_per_hour_now", "expected": "b.expected_usd_per_hour"}, _IN_SHORT)}
    )
    UNION ALL
    SELECT toDateTime(step * {STEP}, 'UTC') AS time, NULL, sum(usd), NULL
    FROM
    (
        SELECT at, usd, arrayJoin(range(toUInt64(intDiv({FROM}, {STEP})), toUInt64(intDiv({TO}, {STEP}) + 1))) AS step
        FROM
        (
            SELECT toInt64(toUnixTimestamp(minute)) AS at, toDecimal128(sum(cost_usd), 9) AS usd
            {_SPENT} AND minute >= toStartOfMinute({FROM_TIME}) - INTERVAL 1 HOUR AND minute < {TO_TIME} AND {is_short()}
            GROUP BY at
        )
    )
    WHERE step * {STEP} >= {FROM} AND at < {_STEP_END} AND at >= {_STEP_END} - 3600
    GROUP BY time
    UNION ALL
    SELECT {bucket("hour", 3_600)} AS time, NULL, toDecimal128({COST_SUM} / {covered_hours(3_600)}, 9), NULL
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND {IN_HOURS} AND {is_long()}
    GROUP BY time
)
GROUP BY time
ORDER BY time"""

_TEAM: Final = "if(j.team = '', '(no team)', j.team)"
BY_TEAM: Final = f"""
SELECT time, series, sum(usd) AS "$/h"
FROM
(
    SELECT time, if(place <= {TEAMS}, series, '(other teams)') AS series, usd
    FROM
    (
        SELECT time, series, usd, dense_rank() OVER (ORDER BY total DESC, series) AS place
        FROM
        (
            SELECT time, series, usd, sum(usd) OVER (PARTITION BY series) AS total
            FROM
            (
                SELECT time, series, toDecimal128("$/h", 9) AS usd
                FROM ({standing({"$/h": "b.usd_per_hour_now"}, _IN_SHORT, _TEAM)}
                )
                UNION ALL
                SELECT {bucket("h.hour", 3_600)} AS time, {_TEAM} AS series, toDecimal128({COST_SUM} / {covered_hours(3_600)}, 9)
                FROM
                (
                    SELECT hour, job_id, {COST_COLUMNS} FROM job_hours FINAL WHERE {USERS_JOBS} AND {IN_HOURS} AND {is_long()}
                ) AS h
                LEFT ANY JOIN (SELECT job_id, team FROM jobs FINAL WHERE {is_long()}) AS j ON j.job_id = h.job_id
                GROUP BY time, series
            )
        )
    )
)
GROUP BY time, series
ORDER BY time, series"""

_JUDGED: Final = f"b.time > {_RATIO_FROM} AND b.time <= {TO_TIME} AND {USERS_JOBS}"
# Of many jobs those that burnt the most above what was expected; 0 is a job that is not judged.
RATIOS: Final = f"""
SELECT {bucket("b.time", 60)} AS time, b.job_id AS series, argMax(b.ratio_15m, (b.time, b.version)) AS "ratio"
FROM burn_rates AS b
WHERE {_JUDGED} AND b.job_id IN
(
    SELECT b.job_id FROM burn_rates AS b WHERE {_JUDGED}
    GROUP BY b.job_id HAVING max(b.ratio_15m) > 0 ORDER BY max(b.ratio_15m) DESC, b.job_id LIMIT {JOBS_DRAWN}
)
GROUP BY time, series
ORDER BY time, series"""
