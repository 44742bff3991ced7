"""Which jobs have no samples because the clock of their collector runs ahead, as `clock_ahead` tells.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS
from streams.worker.ledger_judges.held_jobs_sql import GPU_ROWS
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

#: What was metered at the times that it says makes late what is said of them afterwards; so far ahead at most.
_AHEAD_AT_MOST_MS: Final = DAY_MS
#: A job was on a node so long before at most.
_NODE_KNOWN_MS: Final = DAY_MS
_SINCE: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
_TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
_HOUR_SQL: Final = "toInt64(toUnixTimestamp(toStartOfHour(minute))) * 1000 AS hour_ms"
AHEAD: Final = f"""
SELECT source, node, {_HOUR_SQL}, toInt64(toUnixTimestamp(min(minute))) * 1000 + 60000 AS since_ms,
    toInt64(max(toUnixTimestamp(minute) * 1000 + 60000 + if(refused < records, least(most_ahead_ms, {_AHEAD_AT_MOST_MS}), 0))) AS until_ms
FROM records_ahead FINAL
WHERE minute >= {_SINCE} AND minute < {_TO} AND topic = 'gpu' AND node != '' AND source IN {{sources:Array(String)}}
GROUP BY source, node, hour_ms"""
#: On which nodes jobs were sampled, or said that they are, hour by hour; of rows that were written again since, former versions count, so it is cheap.
ON_NODES: Final = f"""
SELECT DISTINCT job_id, node, hour_ms FROM
(
    SELECT job_id, node, {_HOUR_SQL} FROM job_usage_minutes PREWHERE minute >= {_SINCE} AND minute < {_TO} WHERE node IN {{nodes:Array(String)}}
    UNION ALL
    SELECT job_id, node, {_HOUR_SQL} FROM job_minutes PREWHERE minute >= {_SINCE} AND minute < {_TO} WHERE {GPU_ROWS} AND node IN {{nodes:Array(String)}}
)"""


class AheadSpan(NamedTuple):
    """A job of which samples came ahead, or will be late; `since_ms`: the end of the first minute in which some came."""

    job_id: str
    since_ms: int
    until_ms: int


def ahead_jobs(
    store: SqlStore, episodes: Sequence[tuple[str, int, int]], from_ms: int, to_ms: int
) -> list[AheadSpan]:
    """The jobs on nodes whose samples came ahead in the span, or in the day before it; `episodes`: of sources, when `clock_ahead` stood."""
    sources = sorted({source for source, _, _ in episodes})
    bound = {"from_ms": max(from_ms - _AHEAD_AT_MOST_MS - HOUR_MS, 0), "to_ms": to_ms}
    ahead = [
        row
        for row in named_rows(store, AHEAD, "sources", sources, **bound)
        if any(
            source == row["source"] and began_ms <= row["hour_ms"] + HOUR_MS and over_ms > row["hour_ms"]
            for source, began_ms, over_ms in episodes
        )
    ]
    nodes = sorted({row["node"] for row in ahead})
    bound["from_ms"] = max(bound["from_ms"] - _NODE_KNOWN_MS, 0)
    jobs: dict[str, list[dict[str, Any]]] = {}
    for row in named_rows(store, ON_NODES, "nodes", nodes, **bound):
        jobs.setdefault(row["node"], []).append(row)
    return sorted(
        {
            AheadSpan(each["job_id"], row["since_ms"], row["until_ms"])
            for row in ahead
            for each in jobs.get(row["node"], ())
            if row["hour_ms"] - _NODE_KNOWN_MS <= each["hour_ms"] <= row["hour_ms"]
        }
    )
