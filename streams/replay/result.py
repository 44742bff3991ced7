"""The result of a replay: record accounting and totals of everything ever replayed into the directory."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sinks.port import Store
from streams.engine.shard.books import Books
from streams.replay.segments import LogSegment
from streams.worker.ledger_judges.own_rules_judge import FailedRule


@dataclass(frozen=True)
class ReplayResult:
    """Record accounting and totals of everything ever replayed into the directory."""

    records_in: int
    applied: int
    unattributed: int
    duplicate: int
    too_late: int
    dead_lettered: int
    jobs: int
    gpu_hours: Decimal
    usd: Decimal
    unpriced_gpu_hours: Decimal  # GPU-time without a price
    capped_costs: int  # rows whose cost exceeds a Decimal(18, 9)
    seconds: float
    rows: int  # written by this run
    control_faults: tuple[str, ...] = ()  # of these files' controls that have no effect
    clocks_ahead: tuple[str, ...] = ()  # a sentence for each clock of these files that is ahead of the others
    failed_rules: tuple[FailedRule, ...] = ()  # rules by SQL that could not be judged at some instant
    ignored_fields: tuple[str, ...] = ()  # a sentence for each field of these files that nobody reads

    @property
    def balanced(self) -> bool:
        """Whether every record is accounted for exactly once."""
        kept = self.applied + self.unattributed + self.duplicate
        return self.records_in == kept + self.too_late + self.dead_lettered


def result_of(store: Store, books: Books, rows: int, seconds: float, segment: LogSegment) -> ReplayResult:
    """Combine the store's totals with the record accounting."""
    totals = store.query(
        "SELECT (SELECT count() FROM jobs FINAL) AS jobs, sum(cost_usd) AS usd, "
        "toString(sumIf(toInt128(quantity), component = 'gpu' AND unit = 'gpu_milli_ms')) AS gpu_milli_ms, "
        "toString(sumIf(toInt128(quantity), component = 'gpu' AND sku = '')) AS unpriced_milli_ms FROM job_minutes FINAL"
    ).to_pylist()[0]
    return ReplayResult(
        records_in=books.records_in,
        applied=books.applied,
        unattributed=books.unattributed,
        duplicate=books.duplicate,
        too_late=books.too_late,
        dead_lettered=books.dead_lettered,
        jobs=int(totals["jobs"]),
        gpu_hours=Decimal(int(totals["gpu_milli_ms"])) / 3_600_000_000,
        usd=Decimal(totals["usd"]),
        unpriced_gpu_hours=Decimal(int(totals["unpriced_milli_ms"])) / 3_600_000_000,
        capped_costs=books.capped_costs,
        seconds=round(seconds, 3),
        rows=rows,
        control_faults=tuple(segment.control_faults),
        clocks_ahead=tuple(segment.clocks_ahead),
        failed_rules=tuple(segment.failed_rules),
        ignored_fields=tuple(segment.ignored_fields),
    )
