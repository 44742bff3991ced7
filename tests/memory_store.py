"""A store in memory with the same semantics as the real one, and faults on demand: for tests.

It is no storage, and supports no SQL.
"""

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

from schemas.tables import KEYS, SCHEMAS
from sinks.archive import Archive
from sinks.conform import conform
from sinks.errors import SinkBusy, SinkError
from sinks.meta import Meta
from sinks.readback import Readback
from sinks.rows import Condition
from sinks.snapshots import Snapshots

Row = dict[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
}


class _Fault(NamedTuple):
    when: Literal["before", "after"]
    error: SinkError
    table: str | None


class MemoryStore:
    """Of equal keys the row with the greatest version counts, of equal versions the last one."""

    def __init__(self, name: str = "the store in memory") -> None:
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {table: {} for table in SCHEMAS}
        self._tokens: set[tuple[str, str]] = set()
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._closed = False
        self.inserts = 0
        self.snapshots = Snapshots(self)
        self.archive = Archive(self)
        self.readback = Readback(self)
        self.meta = Meta(self, name)

    def fail(
        self,
        times: int = 1,
        *,
        when: Literal["before", "after"] = "before",
        error: SinkError | None = None,
        table: str | None = None,
    ) -> None:
        """Make the next inserts fail: `before` anything is stored, or `after` everything is."""
        fault = _Fault(when, error or SinkBusy("a fault on demand", 10), table)
        self._faults.extend([fault] * times)

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store the rows unless a fault is scheduled.

        Raises:
            SinkError: The scheduled fault.
        """
        rows = conform(table, rows)
        with self._lock:
            self._check_open()
            self.inserts += 1
            fault = next((f for f in self._faults if f.table in (None, table)), None)
            if fault is not None:
                self._faults.remove(fault)
            if fault is not None and fault.when == "before":
                raise copy(fault.error)  # its traceback would keep what the caller held
            if (table, token) not in self._tokens:
                self._tokens.add((table, token))
                self._merge(table, rows.to_pylist())
            if fault is not None:
                raise copy(fault.error)  # its traceback would keep what the caller held

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Return current rows, ordered by key."""
        whole = SCHEMAS[table]
        schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])
        with self._lock:
            self._check_open()
            stored = self._rows[table]
            rows = [stored[key] for key in sorted(stored)]
        found = [{name: row[name] for name in schema.names} for row in rows if _fits(row, where)]
        found = found[:limit]
        return pa.Table.from_pylist(found, schema=schema)

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """Return the greatest version of matching rows, 0 if there are none."""
        versions: list[int] = self.select(table, where, ("version",))["version"].to_pylist()
        return max(versions, default=0)

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Delete rows immediately."""
        with self._lock:
            self._check_open()
            kept = {key: row for key, row in self._rows[table].items() if not _fits(row, where)}
            self._rows[table] = kept

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Not supported.

        Raises:
            SinkError: Always.
        """
        raise SinkError("the store in memory speaks no SQL")

    def close(self) -> None:
        """Refuse all later calls."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError("the store in memory is closed")

    def _merge(self, table: str, rows: list[Row]) -> None:
        stored = self._rows[table]
        for row in rows:
            key = tuple(row[name] for name in KEYS[table])
            current = stored.get(key)
            if current is None or row["version"] >= current["version"]:
                stored[key] = row


def _fits(row: Row, where: Sequence[Condition]) -> bool:
    # NULL compares with nothing.
    return all(row[c.column] is not None and _OPS[c.op](_comparable(row[c.column]), c.value) for c in where)


def _comparable(value: Any) -> Any:
    return (value - _EPOCH) // timedelta(milliseconds=1) if isinstance(value, datetime) else value
