"""The limits of one query of a user, and the ClickHouse settings that enforce them.

The statement must not be able to change them: they are set before it runs, followed by `readonly`.
"""

from typing import Final

import msgspec

MIB_BYTES: Final = 2**20
TEXT_MAX_BYTES: Final = 16_384
PARAMETERS_MAX: Final = 100


#: What users ask runs when nothing else wants to.
USERS_NICE: Final = 19
#: What the product asks runs behind the meter, and beside whatever else fills the machine: at 19 a busy machine leaves it 1 % of
#: a core, at 5 a fifth.
OWN_NICE: Final = 5
#: What somebody waits for at a page or a terminal may use a second core where there is one.
OWN_THREADS: Final = 2


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one query; a query that exceeds one fails, and is not truncated.

    Attributes:
        is_own: The statements are the product's, which also run where nothing adds FINAL (a command, Grafana): each names it
            where it matters, and leaves it out where all versions of the rows say the same.
        counts_reads: Replies say what was read from tables, which takes two more questions of the engine for each.
    """

    time_ms: int = 30_000
    memory_bytes: int = 128 * MIB_BYTES
    rows_read: int = 4_000_000_000
    result_rows: int = 1_000_000
    result_bytes: int = 64 * MIB_BYTES
    threads: int = 1
    nice: int = USERS_NICE
    is_own: bool = False
    counts_reads: bool = False

    def of_product(self, *, is_own: bool) -> "QueryLimits":
        """These, for what the product asks: with its priority and threads."""
        return msgspec.structs.replace(self, threads=OWN_THREADS, nice=OWN_NICE, is_own=is_own)

    def settings(self) -> dict[str, str]:
        """Return them as ClickHouse settings."""
        return {
            "max_execution_time": f"{self.time_ms / 1000:g}",
            "timeout_overflow_mode": "throw",
            "max_memory_usage": str(self.memory_bytes),
            "max_rows_to_read": str(self.rows_read),
            "read_overflow_mode": "throw",
            "max_result_rows": str(self.result_rows),
            "max_result_bytes": str(self.result_bytes),
            "result_overflow_mode": "throw",
            "max_threads": str(self.threads),
            # Nothing is spilled to disk: memory is the limit.
            "max_bytes_before_external_group_by": "0",
            "max_bytes_ratio_before_external_group_by": "0",
            "max_bytes_before_external_sort": "0",
            "max_bytes_ratio_before_external_sort": "0",
            # A window along a table's order reads it in that order and keeps no rows. The engine sorts them all instead, so that threads
            # can share them; there is one.
            "optimize_read_in_window_order": "1",
            # Rows of a block at most, of arrays as of numbers: blocks of the engine's 65,409 rows of arrays are tens of MiB each.
            "max_block_size": "8192",
            "max_query_size": str(16 * TEXT_MAX_BYTES),
            "max_ast_elements": "50000",
            "max_expanded_ast_elements": "200000",
            "max_ast_depth": "500",
            "allow_ddl": "0",
            "allow_introspection_functions": "0",
            # Direct reads of a table return current rows, as the views do.
            "final": "0" if self.is_own else "1",
        }
