"""The result of an audit: findings by check.

Plain values for metrics, pages, alerts and people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

# The checks; each is a label of `trainfare_books_balanced`.
BOOKS: Final = "books"
INTAKE: Final = "intake"
LETTERS: Final = "dead_letters"
WINDOWS: Final = "ledger_windows"
COSTS: Final = "ledger_costs"
TOTALS: Final = "totals"
NODES: Final = "node_balance"
WRITERS: Final = "one_writer"
SNAPSHOTS: Final = "snapshots"
PARTS: Final = "parts"
SUMS: Final = "ledger_sums"
HOURS: Final = "job_hours"
CHAIN: Final = "changes"

RECOUNT: Final = "`trainfare audit --recount FROM TO` says which rows are wrong"
#: How many faults of one check are listed; the others are only counted.
FAULTS_LISTED: Final = 10


@dataclass(frozen=True)
class AuditFinding:
    """The result of one check of one subject; `detail`: what is wrong and what to do, or what was checked."""

    check: str
    subject: str
    expected: str
    found: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Book:
    """The record accounting of one partition as of an offset; `next` is the first offset that is not counted."""

    topic: str
    partition: int
    first: int
    next: int
    records_in: int
    applied: int
    duplicate: int
    too_late: int
    dead_lettered: int
    trimmed: int = 0
    unattributed: int = 0

    @property
    def name(self) -> str:
        """Topic and partition."""
        return f"{self.topic}/{self.partition}"

    @property
    def balance(self) -> int:
        """The records that are not accounted for; negative: counted twice."""
        kept = self.applied + self.unattributed + self.duplicate
        return self.records_in - kept - self.too_late - self.dead_lettered


@dataclass(frozen=True)
class Verdict:
    """All findings of one audit, and the record accounting they are of."""

    as_of_ms: int
    findings: tuple[AuditFinding, ...]
    books: tuple[Book, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(finding.ok for finding in self.findings)

    @property
    def faults(self) -> Sequence[AuditFinding]:
        """The failed checks."""
        return [finding for finding in self.findings if not finding.ok]


def findings(check: str, faults: Iterable[AuditFinding], subject: str, looked_at: str) -> list[AuditFinding]:
    """The faults of a check, or one passing finding; `looked_at`: what was checked."""
    found = list(faults)
    if not found:
        return [AuditFinding(check, subject, "no difference", "none", ok=True, detail=looked_at)]
    more = len(found) - FAULTS_LISTED
    if more > 0:
        rest = AuditFinding(
            check, subject, "no difference", f"{more} more", ok=False, detail=f"{more} more like these"
        )
        return [*found[:FAULTS_LISTED], rest]
    return found
