"""In which hours jobs ran, and when their attempts ended, for alerts that go on in hours without.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.durations import HOUR_MS
from streams.engine.ledger_rules.quiet_hours import QUIET_MS, JobHours, QuietHours
from streams.engine.rules.hourly_sql import END, FROM, TO
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

_ENDED: Final = "toUnixTimestamp64Milli(assumeNotNull(ended))"

SQL: Final = f"""
SELECT h.job_id AS job_id, h.with_run_time AS with_run_time, a.ends AS ends, a.done AS done
FROM
(
    SELECT job_id, arraySort(groupArrayIf(at_ms, ran)) AS with_run_time
    FROM
    (
        SELECT job_id, {END}, sum(wall_clock_ms) > 0 AS ran FROM job_hours FINAL
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
) AS a ON a.job_id = h.job_id"""


def quiet_hours(store: SqlStore, jobs: Sequence[str], begin_ms: int, end_ms: int) -> QuietHours:
    """What is known of these jobs in the whole hours of [begin_ms, end_ms)."""
    rows = named_rows(store, SQL, "jobs", jobs, from_ms=begin_ms, to_ms=end_ms)
    return QuietHours({row.pop("job_id"): JobHours(**row) for row in rows})
