"""The record accounting of a shard: every input record is counted exactly once.

The equation is `records_in = applied + unattributed + duplicate + too_late + dead_lettered`, in total and per topic.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa

from schemas.columns import instants, rows_of
from schemas.reasons import OUTCOMES
from schemas.tables import BOOKS, DEAD_LETTER_COUNTS, SCHEMAS


class Books(msgspec.Struct):
    """Counts since the shard's first record; `trimmed` records were folded before and are not part of the equation."""

    records_in: int = 0
    applied: int = 0
    duplicate: int = 0
    too_late: int = 0
    dead_lettered: int = 0
    trimmed: int = 0
    late_gpu_samples: int = 0
    capped_costs: int = 0
    unattributed: int = 0  # samples of GPUs that no job holds

    @property
    def balanced(self) -> bool:
        """Whether the equation holds."""
        return self.records_in == self.applied + self.unattributed + self.duplicate + self.refused

    @property
    def refused(self) -> int:
        """The dead letters, including late records."""
        return self.too_late + self.dead_lettered

    def plus(self, other: Books) -> Books:
        """The sum of the counts of two shards."""
        return Books(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))


class Tally(msgspec.Struct):
    """The counts of one topic of a shard; `first`: the offset from which records are counted."""

    first: int | None = None
    records_in: int = 0
    applied: int = 0
    duplicate: int = 0
    too_late: int = 0
    dead_lettered: int = 0
    trimmed: int = 0
    reasons: dict[str, int] = {}  # dead letters by reason, including late records
    stored: dict[str, int] = {}  # of these, how many rows `dead_letters` has; the rest was sampled out
    # Samples of GPUs that no job holds; older snapshots count them as applied.
    unattributed: int = 0

    @property
    def balanced(self) -> bool:
        """Whether the equation holds, and each dead letter has a reason."""
        refused = self.too_late + self.dead_lettered
        return (
            self.records_in == self.applied + self.unattributed + self.duplicate + refused
            and sum(self.reasons.values()) == refused
        )

    def bury(self, reason: str, *, stored: bool) -> None:
        """Count a dead letter's reason, and whether its row is stored."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if stored:
            self.stored[reason] = self.stored.get(reason, 0) + 1

    def add(self, part: Tally) -> None:
        """Add the counts of a batch."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(part, name))
        for mine, of_part in ((self.reasons, part.reasons), (self.stored, part.stored)):
            for reason, records in of_part.items():
                mine[reason] = mine.get(reason, 0) + records

    def add_to(self, books: Books) -> None:
        """Add these counts to the totals over all topics."""
        for name in _COUNTS:
            setattr(books, name, getattr(books, name) + getattr(self, name))


_COUNTS = ("records_in", *OUTCOMES, "trimmed")


def book_tables(
    tallies: Mapping[str, Tally],
    next_offsets: Mapping[str, int],
    time_ms: int,
    read_to_ms: int,
    shard: int,
    version: int,
) -> dict[str, pa.Table]:
    """Build rows of `books` (one per topic) and `dead_letter_counts` (one per topic and reason) as of these offsets.

    `time_ms`: the accrual instant. `read_to_ms`: the log time up to which all records had been read then.
    """
    books: list[dict[str, object]] = []
    letters: list[dict[str, object]] = []
    for topic, tally in sorted(tallies.items()):
        where = {"topic": topic, "partition": shard}
        books.append(
            {
                **where,
                "first_offset": tally.first or 0,
                "next_offset": next_offsets.get(topic, 0),
                **{name: getattr(tally, name) for name in _COUNTS},
                "shard": shard,
                "version": version,
            }
        )
        letters.extend(
            {
                **where,
                "reason": reason,
                "records": records,
                "stored": tally.stored.get(reason, 0),
                "version": version,
            }
            for reason, records in sorted(tally.reasons.items())
        )
    tables = {}
    if letters:
        tables[DEAD_LETTER_COUNTS] = pa.Table.from_pylist(letters, schema=SCHEMAS[DEAD_LETTER_COUNTS])
    if books:
        times = instants([time_ms] * len(books))
        read_to = instants([read_to_ms] * len(books))
        rows = {name: [row[name] for row in books] for name in SCHEMAS[BOOKS].names if name in books[0]}
        tables[BOOKS] = pa.Table.from_pydict(
            {**rows, "time": times, "read_to": read_to}, schema=SCHEMAS[BOOKS]
        )
    return tables


def book_rows_again(books: pa.Table, time_ms: int, read_to_ms: int, version: int) -> pa.Table:
    """Rows of `books` with the same counts, as of other instants, under another version."""
    rows = [{**row, "time": time_ms, "read_to": read_to_ms, "version": version} for row in rows_of(books)]
    return pa.Table.from_pylist(rows, schema=SCHEMAS[BOOKS])
