"""Drops whole months of a table, which costs no rewriting: each is a partition of its own."""

from typing import Final

from schemas.tables import MONTHLY
from sinks.clickhouse.cluster import local
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.target import Server

_MONTHS: Final = """
SELECT DISTINCT toInt64OrZero(partition_id) AS month FROM {parts}
WHERE database = {{database:String}} AND table = {{table:String}} AND active AND month < {{before:Int64}} ORDER BY month"""


def months_before(connection: ClickHouseConnection, table: str, before: int, database: str) -> list[int]:
    """The months of a table before one (202611: November 2026), on all servers.

    Raises:
        ValueError: The table is not partitioned by month.
    """
    if table not in MONTHLY:
        raise ValueError(f"`{table}` has no months")
    target, parts, held_by = connection.target, "system.parts", table
    if isinstance(target, Server) and target.cluster:
        parts, held_by = f"clusterAllReplicas(`{target.cluster}`, system.parts)", local(table)
    sql = _MONTHS.format(parts=parts)
    bound = {"table": held_by, "before": before, "database": database}
    found = connection.call(lambda client: client.query_arrow(sql, parameters=bound))
    months: list[int] = found["month"].to_pylist()
    return months


def drop_months(connection: ClickHouseConnection, table: str, before: int, database: str) -> list[int]:
    """Drop the months of a table before one, and return them.

    Raises:
        ValueError: The table is not partitioned by month.
    """
    months = months_before(connection, table, before, database)
    for month in months:
        # By default a server refuses to drop more than 50 GB.
        connection.change(
            f"ALTER TABLE `{table}` DROP PARTITION ID '{month}' SETTINGS max_partition_size_to_drop = 0"
        )
    return months
