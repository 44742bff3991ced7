"""Metadata of the whole store: which log it belongs to, its format, the group's incarnation."""

from typing import Final

import pyarrow as pa

from schemas.tables import META, SCHEMAS
from sinks.errors import StoreMismatch
from sinks.rows import Condition, Rows

#: The first month (202611: November 2026) whose minutes are kept; earlier ones have hours only. Absent: all are kept.
MINUTES_KEPT_FROM: Final = "minutes_kept_from"


class Meta:
    """A small dictionary of strings."""

    def __init__(self, rows: Rows, where: str) -> None:
        self._rows = rows
        self._where = where  # the store's address, for messages

    def get(self, key: str) -> str | None:
        """The value, or None if it was never set."""
        values: list[str] = self._rows.select(META, [Condition("key", "=", key)], ("value",))[
            "value"
        ].to_pylist()
        return values[0] if values else None

    def put(self, key: str, value: str) -> None:
        """Set the value, replacing any other."""
        version = self._rows.newest_version(META, [Condition("key", "=", key)]) + 1
        row = pa.Table.from_pylist([{"key": key, "value": value, "version": version}], schema=SCHEMAS[META])
        self._rows.insert(META, row, f"meta:{key}:{version}:{value}")

    def set_once(self, key: str, value: str, hint: str = "") -> None:
        """Set the value if there is none.

        Raises:
            StoreMismatch: There is another value.
        """
        stored = self.get(key)
        if stored is None:
            self.put(key, value)
        elif stored != value:
            advice = hint or "give this log a store of its own, or go on with the log this one was made from"
            raise StoreMismatch(
                f"{self._where} belongs to another meter: its {key} is `{stored}`, not `{value}`; {advice}"
            )
