"""A store in memory with the meaning of the real one, quick enough for thousands of runs.

It must keep what `sinks.port` promises and nothing else: it goes through the same contract tests as the real stores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa

from schemas.tables import META, SCHEMAS, SNAPSHOTS
from sinks.archive import Archive
from sinks.conform import conform
from sinks.errors import SinkError
from sinks.meta import Meta
from sinks.readback import Readback
from sinks.rows import Condition
from sinks.snapshots import Snapshots
from tests.stored_rows import Rows

_OPS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
}


#: Tables whose rows may be deleted.
_FORGOTTEN: Final = (SNAPSHOTS, META)


#: Where the current row of a key stands, and its version.
Place = tuple[int, Rows, int]


class Shelf:
    """Of equal keys the row of the greatest version counts, of equal versions the last one."""

    def __init__(self, name: str = "the simulated store") -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Place]] = {table: {} for table in SCHEMAS}
        self.tokens: set[tuple[str, str]] = set()
        #: For whom a rule by the hour held, by rule and hour, each time that somebody asked.
        self.judged: dict[tuple[str, int], set[frozenset[Any]]] = {}
        #: The shards that had not stored all of an hour when somebody asked: those that wait for nothing but nodes.
        self.short: dict[int, set[int]] = {}
        self._newest: dict[tuple[str, int], int] = {}  # (table, shard) -> greatest version, of rows that stay
        self._closed = False
        self.snapshots = Snapshots(self)
        self.archive = Archive(self)
        self.readback = Readback(self)
        self.meta = Meta(self, name)

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store the rows, unless that was done."""
        rows = conform(table, rows)
        self._check_open()
        if (table, token) in self.tokens:
            return
        self.tokens.add((table, token))
        self.put(table, rows)

    def put(self, table: str, rows: pa.Table) -> None:
        """Store the rows, under no token."""
        batch = Rows(rows)
        stored = self.tables[table]
        keys = batch.keys(table)
        versions = batch.column("version")
        if table not in _FORGOTTEN and "shard" in SCHEMAS[table].names:
            for shard, version in zip(batch.column("shard"), versions, strict=True):
                self._newest[table, shard] = max(version, self._newest.get((table, shard), 0))
        for place, (key, version) in enumerate(zip(keys, versions, strict=True)):
            current = stored.get(key)
            if current is None or version >= current[0]:
                stored[key] = (version, batch, place)

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Current rows, ordered by key."""
        self._check_open()
        whole = SCHEMAS[table]
        schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])
        stored = self.tables[table] if self._may_hold(table, where) else {}
        begins: dict[int, int] = {}  # of each batch in all of them together
        batches: list[pa.Table] = []
        places: list[int] = []
        size = 0
        for key in sorted(key for key, place in stored.items() if _fits(place, where))[:limit]:
            _, batch, place = stored[key]
            begin = begins.get(id(batch))
            if begin is None:
                begin = begins[id(batch)] = size
                batches.append(batch.rows.select(schema.names))
                size += batch.rows.num_rows
            places.append(begin + place)
        return pa.concat_tables(batches).take(places) if places else schema.empty_table()

    def _may_hold(self, table: str, where: Sequence[Condition]) -> bool:
        """False if no row of the shard is so new: most questions are whether anything came since."""
        if table in _FORGOTTEN or [(c.column, c.op) for c in where] != [("shard", "="), ("version", ">")]:
            return True
        newest = self._newest.get((table, cast("int", where[0].value)), 0)
        return newest > cast("int", where[1].value)

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """The greatest version of the rows, 0 if none fits."""
        self._check_open()
        if table not in _FORGOTTEN and [(c.column, c.op) for c in where] == [("shard", "=")]:
            return self._newest.get((table, cast("int", where[0].value)), 0)
        return max((p[0] for p in self.tables[table].values() if _fits(p, where)), default=0)

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Forget rows, at once."""
        self._check_open()
        stored = self.tables[table]
        self.tables[table] = {key: place for key, place in stored.items() if not _fits(place, where)}

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Refused: there is no SQL here."""
        raise SinkError("the simulated store speaks no SQL")

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError("the simulated store is closed")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All current rows as the schema's Python values."""
        found: list[dict[str, Any]] = self.select(table).to_pylist()
        return found


def _fits(place: Place, where: Sequence[Condition]) -> bool:
    version, batch, index = place
    for condition in reversed(where):  # versions stand last and say no most often
        value = version if condition.column == "version" else batch.column(condition.column)[index]
        if value is None or not _OPS[condition.op](value, condition.value):
            return False  # NULL compares with nothing
    return True
