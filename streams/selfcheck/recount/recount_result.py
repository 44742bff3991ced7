"""Counts how many rows of a recount agree with the stored ones, and lists those that do not."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.selfcheck.recount.recount import LEDGERS, Difference, Recount, StoredLedger, compare


@dataclass
class RecountResult:
    """Counts of rows; `differences` has the first ones, described."""

    records: int = 0
    agree: int = 0
    differ: int = 0
    missing: int = 0
    extra: int = 0
    newer: int = 0  # written after the position that the log was read up to
    put_back: int = 0  # wrong rows that were rewritten
    differences: list[str] = field(default_factory=list)
    unsettled: int = 0  # jobs and nodes that changed after their last accrual
    unverifiable: list[str] = field(default_factory=list)  # jobs whose first records are gone from the log

    @property
    def ok(self) -> bool:
        """Whether every comparable row agrees."""
        return not (self.differ or self.missing or self.extra)

    def add(
        self, recount: Recount, stored: dict[str, StoredLedger], unverifiable: list[str], most: int
    ) -> None:
        """Add a shard."""
        skip = recount.unsettled | frozenset(unverifiable)
        self.unsettled += len(recount.unsettled)
        self.unverifiable += unverifiable
        self.records += sum(tally.records_in for tally in recount.shard.tallies.values())
        for table in LEDGERS:
            agree, found = compare(table, recount.rows[table], stored[table], skip)
            self.agree += agree
            self.newer += len(stored[table].newer)
            for difference in found:
                self._add(difference, most)

    def _add(self, difference: Difference, most: int) -> None:
        count = {"differs": "differ", "missing": "missing", "extra": "extra"}[difference.kind]
        setattr(self, count, getattr(self, count) + 1)
        if len(self.differences) < most:
            self.differences.append(difference.words)
