"""Reads what a shard has stored beyond a version: a new owner derives these rows again or zeroes them.

The engine knows which of them still apply.
"""

import pyarrow as pa

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    ATTEMPT_GPUS,
    ATTEMPTS,
    BOOKS,
    BURN_RATES,
    DEAD_LETTER_COUNTS,
    JOB_CHECKPOINTS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
    SNAPSHOTS,
    UNATTRIBUTED_MINUTES,
)
from sinks.errors import SinkError
from sinks.rows import Condition, Rows

SHARDED = (
    JOB_MINUTES, JOB_HOURS, JOB_USAGE_MINUTES, UNATTRIBUTED_MINUTES, NODE_MINUTES, NODE_HOURS, JOBS, ATTEMPTS,
    ALERTS,
)  # fmt: skip
#: A crash may interrupt a checkpoint after any table, and an alert is stored before its checkpoint.
_VERSIONED = (*SHARDED, JOB_CHECKPOINTS, ATTEMPT_GPUS, BURN_RATES, ARCHIVE, SNAPSHOTS, BOOKS)


class Readback:
    """Reads the rows of one shard by version."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def newer(self, table: str, shard: int, version: int) -> pa.Table:
        """Current rows with a greater version, including those of quantity 0.

        A row that was zeroed after a snapshot may be one that the snapshot counts as booked. The current row of a key
        has its greatest version, so filtering by version first skips no row.

        Raises:
            SinkError: The table has no shards.
        """
        _check_sharded(table)
        return self._rows.select(table, [Condition("shard", "=", shard), Condition("version", ">", version)])

    def any_between(self, table: str, shard: int, after: int, before: int) -> bool:
        """Whether a row with a version between both is stored, whether or not a newer one has replaced it.

        Far cheaper than `newer`, which has to merge the whole table.

        Raises:
            SinkError: The table has no shards.
        """
        _check_sharded(table)
        where = [Condition("shard", "=", shard), Condition("version", "<", before)]
        return self._rows.newest_version(table, where) > after

    def newer_books(self, shard: int, version: int) -> tuple[pa.Table, pa.Table]:
        """The rows of `books` and of `dead_letter_counts` with a greater version."""
        where = [Condition("partition", "=", shard), Condition("version", ">", version)]
        return self._rows.select(BOOKS, where), self._rows.select(DEAD_LETTER_COUNTS, where)

    def max_version(self, shard: int) -> int:
        """The greatest version of the shard's rows, 0 if it has none."""
        where = [Condition("shard", "=", shard)]
        return max(self._rows.newest_version(table, where) for table in _VERSIONED)


def _check_sharded(table: str) -> None:
    if table not in SHARDED:
        raise SinkError(f"rows of `{table}` do not belong to a shard")
