"""The metrics per job and team, from the oracle's tables, in plain Python.

Must not import streams, sinks or schemas: a fault there could then hide itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracle.model import COMPONENTS, HOUR_MS, HourKey, Tables


@dataclass
class Sums:
    """What a metric of one name is made of."""

    cost_nano: int = 0
    timed_cost_nano: int = 0  # of jobs that have run time
    timed_by_component: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wall_clock_ms: int = 0
    gpu: int = 0
    lost_gpu: int = 0
    productive_gpu_ms: int = 0
    jobs: set[str] = field(default_factory=set)
    successful: set[str] = field(default_factory=set)

    def usd_per_hour(self) -> Fraction | None:
        """M1: of what has run time."""
        return _ratio(Fraction(self.timed_cost_nano, 10**9), Fraction(self.wall_clock_ms, HOUR_MS))

    def component_usd_per_hour(self, component: str) -> Fraction | None:
        """M6 (storage), M7 (network)."""
        usd = Fraction(self.timed_by_component[component], 10**9)
        return _ratio(usd, Fraction(self.wall_clock_ms, HOUR_MS))

    def goodput_gpu_h(self) -> Fraction | None:
        """M8: productive time less the share of paid GPU-time that was lost; dollars have no part in it."""
        lost = _ratio(Fraction(self.lost_gpu), Fraction(self.gpu))
        return None if lost is None else Fraction(self.productive_gpu_ms, HOUR_MS) * (1 - lost)


def sums(tables: Tables, name_of: Callable[[str], str]) -> dict[str, Sums]:
    """By name; `name_of` a job's id is the name that it goes under."""
    found: dict[str, Sums] = defaultdict(Sums)
    for key, row in tables.ledger.items():
        of = found[name_of(key.job_id)]
        of.cost_nano += row.cost_nano
        if row.cost_nano:
            of.jobs.add(key.job_id)
        if tables.jobs[key.job_id].wall_clock_ms:
            of.timed_cost_nano += row.cost_nano
            of.timed_by_component[key.component] += row.cost_nano
        if key.component == "gpu":
            of.gpu += row.quantity
            of.lost_gpu += row.lost_quantity
    for (_, job_id, _), usage in tables.usage.items():
        found[name_of(job_id)].productive_gpu_ms += usage.productive_gpu_ms
        if usage.productive_gpu_ms:
            found[name_of(job_id)].jobs.add(job_id)
    for job_id, job in tables.jobs.items():
        of = found[name_of(job_id)]
        of.wall_clock_ms += job.wall_clock_ms
        if job.wall_clock_ms:
            of.jobs.add(job_id)
        if job.state == "completed":
            of.successful.add(job_id)
    return dict(found)


@dataclass
class CostCell:
    """What hours of one name and period are made of, by job."""

    cost_nano: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    infra_nano: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wall_clock_ms: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def usd_per_hour(self) -> Fraction | None:
        """M1: all cost per hour of run time."""
        return _rate(sum(self.cost_nano.values()), sum(self.wall_clock_ms.values()))

    def infra_usd_per_hour(self) -> Fraction | None:
        """M1 without licence and labour."""
        return _rate(sum(self.infra_nano.values()), sum(self.wall_clock_ms.values()))

    def job_rates(self) -> list[Fraction]:
        """What an hour cost each job that ran, ascending."""
        rates = (_rate(self.cost_nano[job_id], ms) for job_id, ms in self.wall_clock_ms.items())
        return sorted(rate for rate in rates if rate is not None)


def hour_cells(
    tables: Tables, name_of: Callable[[HourKey], str], period_of: Callable[[int], int]
) -> dict[tuple[int, str], CostCell]:
    """By (period, name); `period_of` an hour since 1970 is the period in which it lies."""
    found: dict[tuple[int, str], CostCell] = defaultdict(CostCell)
    for key, row in tables.hours.items():
        of = found[period_of(key.hour), name_of(key)]
        costs = dict(zip(COMPONENTS, row.cost_nano, strict=True))
        of.cost_nano[key.job_id] += sum(row.cost_nano)
        of.infra_nano[key.job_id] += sum(row.cost_nano) - costs["license"] - costs["labor"]
        of.wall_clock_ms[key.job_id] += row.wall_clock_ms
    return dict(found)


def quantile(ascending: list[Fraction], share: Fraction) -> Fraction | None:
    """The value below which a share of them lies, in proportion between two."""
    if not ascending:
        return None
    at = share * (len(ascending) - 1)
    low = int(at)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (at - low) * (ascending[high] - ascending[low])


def _rate(cost_nano: int, wall_clock_ms: int) -> Fraction | None:
    return _ratio(Fraction(cost_nano, 10**9), Fraction(wall_clock_ms, HOUR_MS))


def _ratio(above: Fraction, below: Fraction) -> Fraction | None:
    return above / below if below else None
