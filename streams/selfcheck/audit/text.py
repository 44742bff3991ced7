"""Formats an audit's result as plain text and as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from schemas.counting import how_many
from streams.engine.rules.formatting import one_line
from streams.selfcheck.audit.verdict import Book, Verdict

COLUMNS: Final = (
    "partition",
    "next",
    "records in",
    "applied",
    "unattributed",
    "duplicate",
    "too late",
    "dead-lettered",
    "balance",
)


def book_row(book: Book) -> tuple[object, ...]:
    """A partition's line of the table."""
    counts = (
        book.records_in,
        book.applied,
        book.unattributed,
        book.duplicate,
        book.too_late,
        book.dead_lettered,
    )
    return (book.name, book.next, *counts, "ok" if book.balance == 0 else f"{book.balance:+d}")


def as_object(verdict: Verdict) -> dict[str, Any]:
    """JSON values: findings, record accounting, and `ok` overall."""
    return {
        "as_of_ms": verdict.as_of_ms,
        "ok": verdict.ok,
        "findings": [asdict(finding) for finding in verdict.findings],
        "books": [{**asdict(book), "balance": book.balance} for book in verdict.books],
    }


def as_text(verdict: Verdict, age_s: int) -> str:
    """Plain text: the verdict first, then each finding, then the record accounting."""
    head = "balanced" if verdict.ok else f"NOT BALANCED: {how_many(len(verdict.faults), 'fault')}"
    lines = [f"{head}, {age_s} s ago", ""]
    lines += [f"{'ok  ' if f.ok else 'FAIL'}  {f.check:<15}  {one_line(f.detail)}" for f in verdict.findings]
    table = [COLUMNS, *(tuple(map(str, book_row(book))) for book in verdict.books)]
    widths = [max(len(row[at]) for row in table) for at in range(len(COLUMNS))]
    lines.append("")
    for row in table:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())
    return "\n".join(lines) + "\n"
