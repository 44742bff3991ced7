"""What a shard has stored beyond a version: a new owner re-derives or zeroes these rows.

It must not judge the rows: which of them still apply is for the pipeline to know.
"""

import pyarrow as pa

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    ATTEMPTS,
    BOOKS,
    BURN_RATES,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_MINUTES,
    SNAPSHOTS,
)
from sinks.errors import SinkError
from sinks.rows import Condition, Rows

SHARDED = (JOB_MINUTES, JOB_USAGE_MINUTES, NODE_MINUTES, JOBS, ATTEMPTS, ALERTS)
#: A checkpoint may end after any of its tables, and an alert is stored before its checkpoint.
_VERSIONED = (*SHARDED, BURN_RATES, ARCHIVE, SNAPSHOTS, BOOKS)


class Readback:
    """Reads the rows of one shard by version."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def newer(self, table: str, shard: int, version: int) -> pa.Table:
        """Current rows with a greater version, those of quantity 0 too.

        A row that was set to zero after a snapshot may be one that the snapshot counts as booked.  A key's current row has its greatest version, so no row is passed over by looking at versions first.
        """
        if table not in SHARDED:
            raise SinkError(f"rows of `{table}` do not belong to a shard")
        return self._rows.select(table, [Condition("shard", "=", shard), Condition("version", ">", version)])

    def max_version(self, shard: int) -> int:
        """The greatest version that any row of the shard has, 0 if it has none."""
        where = [Condition("shard", "=", shard)]
        return max(self._rows.newest_version(table, where) for table in _VERSIONED)
