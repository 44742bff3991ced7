"""The operations of every store on the rows of its tables, as a protocol."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

Value = str | int | Sequence[str] | Sequence[int]


class Condition(NamedTuple):
    """One comparison of a column; several are combined by AND."""

    column: str
    op: Literal["=", "!=", "<", "<=", ">", ">=", "in"]
    value: Value


class Rows(Protocol):
    """Rows of the tables in `schemas.tables`, where of equal keys the greatest version counts."""

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Return when the rows are stored; repeating a token stores nothing again.

        The token must name the content: other rows under a token already used are silently dropped.

        Raises:
            SinkBusy: The same call may succeed later; part of the rows may be stored.
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
        """Current rows, ordered by key, in the types of `schemas.tables`; at most `limit`.

        Instants are compared with ms since 1970 UTC.
        """
        ...

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """The greatest version of the rows, 0 if there are none.

        Conditions on key columns, shard and version only. Under an upper bound of the version, rows that newer ones have
        replaced may count.
        """
        ...

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Delete rows permanently, by the time it returns or (without `wait`) later.

        Only for bookkeeping (snapshots), never for ledger rows.
        """
        ...
