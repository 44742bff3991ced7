"""Shows the audit trail: who changed what, when, from where, how that was proven, and what stood before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from streams.cli.output import Grid, OutputFormat, write
from streams.cli.reading import Reader
from streams.explain.changes import LIMIT_MAX, NEWEST, PAGE

_COLUMNS: Final = ("offset", "time", "by", "proof", "from", "kind", "name", "before", "after", "why")


def show_changes(store: Reader, form: OutputFormat) -> None:
    """Write the newest changes, the last one first."""
    found = store.records(PAGE, **NEWEST, limit=LIMIT_MAX)
    write(Grid(_COLUMNS, [_row(each) for each in found]), form)


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    time = datetime.fromtimestamp(row["time_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        str(row["offset"]),
        time,
        str(row["by"]) or "-",
        str(row["proof"]) or "topic",
        str(row["address"]) or "-",
        str(row["kind"]),
        str(row["name"]),
        str(row["before"]) or "-",
        "removed" if row["removed"] else str(row["after"]),
        str(row["comment"]) or "-",
    )
