"""The store of a month's allocation and closing, where this process has it open."""

from __future__ import annotations

import pyarrow as pa

from schemas.bill_tables import BILL_PARTS, CLOSED_CHARGES, CLOSED_MONTHS, JOB_BILLS
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition


class OpenMonthStore:
    """A store that is open here, as `AllocationStore`."""

    def __init__(self, store: ClickHouseStore) -> None:
        self._store = store

    def ask(self, sql: str, **parameters: object) -> QueryResult:
        """The result; `{name:Type}` in the SQL refers to the parameter of that name."""
        return self._store.ask(sql, parameters)

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store rows."""
        self._store.insert(table, rows, token)

    def forget_allocations(self, month_s: int, before: int) -> None:
        """Remove the allocations of a month that are older than one."""
        older = [Condition("month", "=", month_s * 1_000), Condition("allocation", "<", before)]
        for table in (BILL_PARTS, JOB_BILLS):
            self._store.delete(table, older, wait=False)

    def forget_closing(self, month_s: int) -> None:
        """Remove rows of a closing of a month that has no manifest."""
        of_month = [Condition("month", "=", month_s * 1_000)]
        if not self._store.select(CLOSED_MONTHS, of_month, ["month"]).num_rows:
            self._store.delete(CLOSED_CHARGES, of_month)
