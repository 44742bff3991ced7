"""How much one query of a user may take, and the ClickHouse settings that say so.

It must not be reachable by the statement: the settings are set before it runs, and `readonly` after them.
"""

from typing import Final

import msgspec

MIB_BYTES: Final = 2**20
TEXT_MAX_BYTES: Final = 16_384
PARAMETERS_MAX: Final = 100


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one query; what exceeds one of them fails, and is not cut short."""

    time_ms: int = 30_000
    memory_bytes: int = 128 * MIB_BYTES
    rows_read: int = 4_000_000_000
    result_rows: int = 1_000_000
    result_bytes: int = 64 * MIB_BYTES
    threads: int = 1

    def settings(self) -> dict[str, str]:
        """The same as settings of ClickHouse, by name."""
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
            # Nothing is spilled to the disk: the memory is the limit.
            "max_bytes_before_external_group_by": "0",
            "max_bytes_ratio_before_external_group_by": "0",
            "max_bytes_before_external_sort": "0",
            "max_bytes_ratio_before_external_sort": "0",
            "max_query_size": str(16 * TEXT_MAX_BYTES),
            "max_ast_elements": "50000",
            "max_expanded_ast_elements": "200000",
            "max_ast_depth": "500",
            "allow_ddl": "0",
            "allow_introspection_functions": "0",
            # Who reads a table itself sees current rows, as in the views.
            "final": "1",
        }
