"""Drops whole months of a table, which costs no rewriting: each is a partition of its own."""

from functools import partial
from typing import Final

from clickhouse_connect.driver.client import Client

from schemas.tables import MONTHLY
from sinks.clickhouse.connection import ClickHouseConnection

_MONTHS: Final = """
SELECT DISTINCT toInt64OrZero(partition_id) AS month FROM system.parts
WHERE database = currentDatabase() AND table = {table:String} AND active AND month < {before:Int64} ORDER BY month"""


def drop_months(connection: ClickHouseConnection, table: str, before: int) -> list[int]:
    """Drop the months of a table before one (202611: November 2026), and return them.

    Raises:
        ValueError: The table is not partitioned by month.
    """
    if table not in MONTHLY:
        raise ValueError(f"`{table}` has no months")
    bound = {"table": table, "before": before}
    found = connection.call(lambda client: client.query_arrow(_MONTHS, parameters=bound))
    months: list[int] = found["month"].to_pylist()
    for month in months:
        # By default a server refuses to drop more than 50 GB.
        sql = f"ALTER TABLE `{table}` DROP PARTITION ID '{month}' SETTINGS max_partition_size_to_drop = 0"
        connection.call(partial(_run, sql=sql))
    return months


def _run(client: Client, sql: str) -> None:
    client.command(sql)
