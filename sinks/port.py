"""What the meter needs of a store, as protocols; the books on top of it are the same for every store.

It must not know which store it is, nor speak SQL, but for `query`, which only a real store can answer.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from sinks.archive import Archive
    from sinks.meta import Meta
    from sinks.readback import Readback
    from sinks.snapshots import Snapshots

Value = str | int | Sequence[str] | Sequence[int]


class Condition(NamedTuple):
    """One comparison of a column; several of them hold together."""

    column: str
    op: Literal["=", "!=", "<", "<=", ">", ">=", "in"]
    value: Value


class Rows(Protocol):
    """Rows of the tables in `schemas.tables`, where of equal keys the greatest version counts."""

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Return when the rows are stored; the same token again stores nothing again.

        The token must name the content: other rows under a token already used are dropped in silence.
        Raises SinkBusy if the same call may succeed later; part of the rows may then be stored.
        """
        ...

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Current rows, ordered by key, in the types of `schemas.tables`; of them the first `limit`.

        Instants are compared with ms since 1970 UTC.
        """
        ...

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """The greatest version of the rows, 0 if none fits. Conditions on key columns and shard only."""
        ...

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Forget rows for good, by the time it returns or (without `wait`) some time after.

        Only for bookkeeping (snapshots), never for ledger rows.
        """
        ...


class Store(Rows, Protocol):
    """A store with the books that a worker keeps in it. All calls block; any thread may call."""

    @property
    def snapshots(self) -> "Snapshots":
        """Shards' states."""
        ...

    @property
    def archive(self) -> "Archive":
        """Finished jobs."""
        ...

    @property
    def readback(self) -> "Readback":
        """Rows by shard and version."""
        ...

    @property
    def meta(self) -> "Meta":
        """Facts about the whole store."""
        ...

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own SQL, with `{name:Type}` for parameters. DateTime columns come as uint32 seconds."""
        ...

    def close(self) -> None:
        """Let go of everything; later calls raise SinkError."""
        ...
