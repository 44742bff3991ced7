"""Table settings for the embedded engine; on a server its administrator chooses them.

The engine's version is pinned with the package, so it supports these settings.
"""

from typing import Final

from sinks.clickhouse.connection import ClickHouseConnection

#: Column statistics are rebuilt in each merge, a fifth of its time; our queries use the keys.
_STATISTICS: Final = "auto_statistics_types = ''"
_TABLES: Final = (
    "job_minutes", "job_hours", "node_minutes", "node_hours", "job_usage_minutes", "unattributed_minutes", "burn_rates",
)  # fmt: skip
_UNTUNED: Final = (
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND name IN {names:Array(String)} "
    "AND position(engine_full, 'auto_statistics_types') = 0"
)


def tune(connection: ClickHouseConnection) -> None:
    """Apply the settings, once per table."""
    names = {"names": list(_TABLES)}
    untuned = connection.call(lambda client: client.query(_UNTUNED, parameters=names)).result_rows
    for (name,) in untuned:
        _send(connection, str(name))


def _send(connection: ClickHouseConnection, table: str) -> None:
    connection.call(lambda client: client.command(f"ALTER TABLE `{table}` MODIFY SETTING {_STATISTICS}"))
