"""In which hours jobs cost something or ran, and when their attempts ended, for alerts that go on in hours without.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, NEVER_MS
from streams.engine.ledger_rules.quiet_hours import QUIET_MS, JobHours, QuietHours
from streams.engine.rules.hourly_sql import COST, END, FROM, TO
from streams.engine.rules.registry import LEDGER_RULES
from streams.worker.ledger_judges.reader import SqlStore

#: Names of one parameter: ClickHouse refuses one of more than 128 KiB.
_JOBS_AT_ONCE: Final = 400
_NAMING: Final = sorted({rule.left_to for rule in LEDGER_RULES.values() if rule.left_to})
_ENDED: Final = "toUnixTimestamp64Milli(assumeNotNull(ended))"

SQL: Final = f"""
SELECT h.job_id AS job_id, h.with_cost AS with_cost, h.with_run_time AS with_run_time, a.ends AS ends, a.done AS done,
    n.rules AS rules, n.since AS since, n.until AS until
FROM
(
    SELECT job_id, arraySort(groupArrayIf(at_ms, has_cost)) AS with_cost, arraySort(groupArrayIf(at_ms, ran)) AS with_run_time
    FROM
    (
        SELECT job_id, {END}, sum({COST}) > 0 AS has_cost, sum(wall_clock_ms) > 0 AS ran FROM job_hours FINAL
        WHERE job_id IN {{jobs:Array(String)}} AND hour >= {FROM} - INTERVAL {QUIET_MS // HOUR_MS} HOUR AND hour < {TO}
        GROUP BY job_id, hour
    )
    GROUP BY job_id
) AS h
LEFT ANY JOIN
(
    SELECT job_id, arraySort(groupArray({_ENDED})) AS ends,
        arraySort(groupArrayIf({_ENDED}, state IN ('completed', 'cancelled'))) AS done
    FROM attempts FINAL
    WHERE job_id IN {{jobs:Array(String)}} AND ended IS NOT NULL AND {_ENDED} >= {{from_ms:Int64}} - {QUIET_MS + HOUR_MS}
        AND {_ENDED} < {{to_ms:Int64}}
    GROUP BY job_id
) AS a ON a.job_id = h.job_id
LEFT ANY JOIN
(
    SELECT subject_name, groupArray(rule) AS rules, groupArray(toUnixTimestamp64Milli(started)) AS since,
        groupArray(if(resolved IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(resolved)))) AS until
    FROM alerts FINAL
    WHERE rule IN {{rules:Array(String)}} AND subject_name IN {{jobs:Array(String)}} AND started < {TO}
        AND (resolved IS NULL OR resolved > {FROM})
    GROUP BY subject_name
) AS n ON n.subject_name = h.job_id"""


def quiet_hours(store: SqlStore, jobs: Sequence[str], begin_ms: int, end_ms: int) -> QuietHours:
    """What is known of these jobs in the whole hours of [begin_ms, end_ms)."""
    found: dict[str, JobHours] = {}
    for first in range(0, len(jobs), _JOBS_AT_ONCE):
        bound = {"jobs": jobs[first : first + _JOBS_AT_ONCE], "from_ms": begin_ms, "to_ms": end_ms}
        for row in rows_of(store.query(SQL, {**bound, "rules": _NAMING})):
            named = [*zip(row["rules"], row["since"], row["until"], strict=True)]
            hours = row["with_cost"], row["with_run_time"]
            found[row["job_id"]] = JobHours(*hours, row["ends"], row["done"], named)
    return QuietHours(found)
