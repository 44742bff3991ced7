"""What a backfill has come to: its record accounting, what it left out, and what its rows add up to."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from schemas.columns import rows_of
from schemas.units import COMPONENTS
from sinks.port import Store
from streams.backfill.runs import BackfillRun, LineCounts
from streams.engine.shard.books import Books

_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
#: By hours: months of minutes may have been dropped.
_TOTALS: Final = f"""
SELECT toInt64(uniqExact(job_id)) AS jobs, toString(sum({_COST})) AS usd, toString(sum(toInt128(gpu_milli_ms))) AS gpu_milli_ms,
       toString(sum(toInt128(unpriced_gpu_milli_ms))) AS unpriced_milli_ms
FROM job_hours FINAL WHERE shard = {{shard:UInt16}}"""  # noqa: S608 - of a fixed list
_UNPRICED: Final = """
SELECT gpu_type, toString(sum(toInt128(unpriced_gpu_milli_ms))) AS milli_ms
FROM job_hours FINAL WHERE shard = {shard:UInt16} AND unpriced_gpu_milli_ms != 0 GROUP BY gpu_type"""
_JOBS: Final = "SELECT toInt64(count()) AS jobs FROM jobs FINAL WHERE shard = {shard:UInt16}"
_MILLI_MS_PER_HOUR: Final = 3_600_000_000


@dataclass(frozen=True)
class BackfillResult:
    """One backfill; `rows` were written by this command."""

    run: BackfillRun
    books: Books
    jobs: int
    gpu_hours: Decimal
    usd: Decimal
    unpriced_gpu_hours: Decimal
    unpriced_types: tuple[tuple[str, Decimal], ...]  # with GPU-hours
    seconds: float
    rows: int

    @property
    def counts(self) -> LineCounts:
        """Where the lines went that the shard does not count."""
        return self.run.counts

    @property
    def balanced(self) -> bool:
        """Whether every line is accounted for exactly once."""
        return self.books.balanced and self.counts.lines == self.books.records_in + self.counts.outside


def result_of(store: Store, run: BackfillRun, books: Books, rows: int, seconds: float) -> BackfillResult:
    """Combine the store's totals of the backfill with its record accounting."""
    (totals,) = rows_of(store.query(_TOTALS, {"shard": run.shard}))
    unpriced = rows_of(store.query(_UNPRICED, {"shard": run.shard}))
    return BackfillResult(
        run=run,
        books=books,
        jobs=int(store.query(_JOBS, {"shard": run.shard})["jobs"][0].as_py()),
        gpu_hours=Decimal(int(totals["gpu_milli_ms"])) / _MILLI_MS_PER_HOUR,
        usd=Decimal(totals["usd"]),
        unpriced_gpu_hours=Decimal(int(totals["unpriced_milli_ms"])) / _MILLI_MS_PER_HOUR,
        unpriced_types=tuple(
            (str(row["gpu_type"]), Decimal(int(row["milli_ms"])) / _MILLI_MS_PER_HOUR) for row in unpriced
        ),
        seconds=round(seconds, 3),
        rows=rows,
    )
