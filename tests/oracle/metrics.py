"""The metrics per job and team, from the oracle's tables, in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.model import COMPONENTS, HOUR_MS, HourKey, HourRow, LedgerKey, Tables

Figures = dict[tuple[str, str], Fraction | float | None]


@dataclass
class Sums:
    """What a metric of one name is made of."""

    cost_nano: int = 0
    by_component: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wall_clock_ms: int = 0
    gpu: int = 0
    lost_gpu: int = 0
    productive_gpu_ms: int = 0
    jobs: set[str] = field(default_factory=set)
    successful: set[str] = field(default_factory=set)

    def usd_per_hour(self) -> Fraction | None:
        """M1: all cost over all run time."""
        return _rate(self.cost_nano, self.wall_clock_ms)

    def component_usd_per_hour(self, component: str) -> Fraction | None:
        """M6 (storage), M7 (network)."""
        return _rate(self.by_component[component], self.wall_clock_ms)

    def goodput_gpu_h(self) -> Fraction:
        """M8: paid GPU-time that was not lost; dollars have no part in it."""
        return Fraction(self.gpu - self.lost_gpu, 1000 * HOUR_MS)


def sums(tables: Tables, name_of: Callable[[str], str]) -> dict[str, Sums]:
    """By name; `name_of` a job's id is the name that it goes under."""
    found: dict[str, Sums] = defaultdict(Sums)
    for key, row in tables.ledger.items():
        of = found[name_of(key.job_id)]
        of.cost_nano += row.cost_nano
        if row.cost_nano:
            of.jobs.add(key.job_id)
        of.by_component[key.component] += row.cost_nano
        if key.component == "gpu":
            of.gpu += row.quantity
            of.lost_gpu += row.lost_quantity
    for (_, job_id, _), usage in tables.usage.items():
        found[name_of(job_id)].productive_gpu_ms += usage.productive_gpu_ms
    for hour_key, hour in tables.hours.items():
        found[name_of(hour_key.job_id)].wall_clock_ms += hour.wall_clock_ms
        if hour.wall_clock_ms:
            found[name_of(hour_key.job_id)].jobs.add(hour_key.job_id)
    for job_id, job in tables.jobs.items():
        of = found[name_of(job_id)]
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
        return self._rates(self.cost_nano)

    def job_infra_rates(self) -> list[Fraction]:
        """The same without licence and labour."""
        return self._rates(self.infra_nano)

    def _rates(self, nano: Mapping[str, int]) -> list[Fraction]:
        rates = (_rate(nano[job_id], ms) for job_id, ms in self.wall_clock_ms.items())
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


def metric_figures(
    tables: Tables, is_of: Callable[[HourKey], bool], slo: Fraction, target: Fraction
) -> Figures:
    """Every column of M1 to M10 over all time, of the hours that are asked for; `slo` USD per hour."""
    hours = {key: row for key, row in tables.hours.items() if is_of(key)}
    (cell,) = hour_cells(Tables(hours=hours, jobs=tables.jobs), lambda _: "", lambda _: 0).values()
    cost = Fraction(sum(cell.cost_nano.values()), 10**9)
    component = {
        name: Fraction(sum(row.cost_nano[at] for row in hours.values()), 10**9)
        for at, name in enumerate(COMPONENTS)
    }
    ran_h = Fraction(sum(row.wall_clock_ms for row in hours.values()), HOUR_MS)
    gpu_h = Fraction(sum(row.gpu_milli_ms for row in hours.values()), 1000 * HOUR_MS)
    goodput_h = gpu_h - Fraction(sum(row.lost_gpu_milli_ms for row in hours.values()), 1000 * HOUR_MS)
    sampled_h = Fraction(sum(row.sampled_gpu_ms for row in hours.values()), HOUR_MS)
    productive_h = Fraction(sum(row.productive_gpu_ms for row in hours.values()), HOUR_MS)
    productive = _ratio(productive_h, sampled_h)
    lost = Fraction(sum(row.lost_cost_nano for row in hours.values()), 10**9)
    retry = Fraction(sum(_retry_nano(tables, key) for key in hours), 10**9)
    jobs = {key.job_id for key, row in hours.items() if row.wall_clock_ms or any(row.cost_nano)}
    completed = [job_id for job_id in jobs if tables.jobs[job_id].state == "completed"]
    reported = [dict(tables.jobs[job_id].quality) for job_id in jobs]
    accuracy = [Fraction(str(each["accuracy"])) for each in reported if "accuracy" in each]
    gained = max(accuracy) - min(accuracy) if accuracy else Fraction()
    steps = [Fraction(str(dict(tables.jobs[job_id].progress).get("step", 0))) for job_id in jobs]
    nodes = Fraction(sum(row.cost_nano for row in tables.nodes.values()), 10**9)
    named = {key.node for key in tables.nodes}
    on_nodes = (r.cost_nano for k, r in tables.ledger.items() if k.node in named and k.component == "gpu")
    idle = nodes - Fraction(sum(on_nodes), 10**9)
    attempts = {(key.job_id, key.attempt) for key in hours}
    ledger = [(key, row) for key, row in tables.ledger.items() if (key.job_id, key.attempt) in attempts]
    requests = sum(row.quantity for key, row in ledger if key.unit == "requests")
    sent = (row.cost_nano for key, row in ledger if key.component == "network" and key.direction != "ingress")
    egress = Fraction(sum(sent), 10**9)
    rates, infra = cell.job_rates(), cell.job_infra_rates()
    by_clock = _by_clock(hours)
    mean = _ratio(sum((usd for usd, _ in by_clock), Fraction()), ran_h)
    assert mean is not None
    variance = sum((ran * (usd / ran - mean) ** 2 for usd, ran in by_clock), Fraction()) / ran_h
    over = sum((ran for usd, ran in by_clock if usd / ran > slo), Fraction()) / ran_h
    return {
        ("total", "cost_usd"): cost,
        ("total", "license_cost_usd"): component["license"],
        ("total", "starting_h"): Fraction(sum(row.starting_ms for row in hours.values()), HOUR_MS),
        ("total", "unpriced_gpu_h"): Fraction(
            sum(row.unpriced_gpu_milli_ms for row in hours.values()), 1000 * HOUR_MS
        ),
        ("m1", "wall_clock_h"): ran_h,
        ("m1", "usd_per_hour"): cell.usd_per_hour(),
        ("m1", "infra_usd_per_hour"): cell.infra_usd_per_hour(),
        ("m1", "median_usd_per_hour"): quantile(rates, Fraction(1, 2)),
        ("m1", "p95_usd_per_hour"): quantile(rates, Fraction(95, 100)),
        ("m1", "median_infra_usd_per_hour"): quantile(infra, Fraction(1, 2)),
        ("m2", "usd_per_gpu_hour"): _ratio(component["gpu"] + component["overhead"], gpu_h),
        ("m3", "cost_usd"): nodes,
        ("m3", "idle_cost_usd"): idle,
        ("m3", "unattributed_cost_usd"): nodes * _used_by_nobody(tables),
        ("m3", "ratio"): _ratio(idle, nodes),
        ("m4", "usd_per_hour"): cost / len({key.hour for key, row in hours.items() if any(row.cost_nano)}),
        ("m4", "peak_usd_per_hour"): max(usd for usd, _ in by_clock),
        ("m5", "lost_cost_usd"): lost,
        ("m5", "ratio"): _ratio(lost, cost),
        ("m5", "retry_cost_usd"): retry,
        ("m5", "retry_ratio"): _ratio(retry, cost),
        ("m6", "usd_per_hour"): _ratio(component["storage"], ran_h),
        ("m6", "requests_per_hour"): _ratio(Fraction(requests), ran_h),
        ("m7", "usd_per_hour"): _ratio(component["network"], ran_h),
        ("m7", "egress_cost_usd"): egress,
        ("m7", "ingress_cost_usd"): component["network"] - egress,
        ("m8", "coverage_ratio"): _ratio(sampled_h, gpu_h),
        ("m8", "productive_ratio"): productive,
        ("m8", "usd_per_productive_gpu_hour"): _ratio(cost, gpu_h * (productive or 0)),
        ("m8", "goodput_gpu_h"): goodput_h,
        ("m8", "goodput_ratio"): _ratio(goodput_h, gpu_h),
        ("m8", "usd_per_goodput_gpu_hour"): _ratio(cost, goodput_h),
        ("m9", "usd_per_job"): _ratio(cost, Fraction(len(jobs))),
        ("m9", "usd_per_successful_job"): _ratio(cost, Fraction(len(completed))),
        ("m9", "quality_gained"): gained,
        ("m9", "usd_per_quality_gained"): _ratio(cost, gained),
        ("m9", "usd_per_progress"): _ratio(cost, sum(steps, Fraction())),
        ("m10", "mean_usd_per_hour"): mean,
        ("m10", "stddev_usd_per_hour"): math.sqrt(variance),
        ("m10", "variation"): math.sqrt(variance) / float(mean),
        ("m10", "slo_over_ratio"): over,
        ("m10", "slo_budget_left_ratio"): 1 - over / (1 - target),
    }


def _used_by_nobody(tables: Tables) -> Fraction:
    """The share of the nodes' GPU-time that samples without a job call productive; all nodes cost the same."""
    productive_ms = sum(row.productive_ms for row in tables.unattributed.values())
    return Fraction(1000 * productive_ms, sum(row.quantity for row in tables.nodes.values()) or 1)


def _by_clock(hours: Mapping[HourKey, HourRow]) -> list[tuple[Fraction, Fraction]]:
    """What each hour of the clock in which any ran cost, and for how many hours jobs ran in it."""
    usd: dict[int, Fraction] = defaultdict(Fraction)
    ran_h: dict[int, Fraction] = defaultdict(Fraction)
    for key, row in hours.items():
        usd[key.hour] += Fraction(sum(row.cost_nano), 10**9)
        ran_h[key.hour] += Fraction(row.wall_clock_ms, HOUR_MS)
    return [(usd[hour], ran_h[hour]) for hour in usd if ran_h[hour]]


def _retry_nano(tables: Tables, key: HourKey) -> int:
    """Of an hour's lost work, what retries caused: the rules of docs/cost_metrics.md, lost work."""
    row, numbers = tables.hours[key], [n for job_id, n in tables.attempts if job_id == key.job_id]
    if key.attempt < max(numbers):
        return row.lost_cost_nano  # a later attempt followed
    if key.attempt == min(numbers):
        return 0  # the only one: nobody tried again
    return row.starting_lost_cost_nano  # its start-up, whatever became of it


class DriverEffects(NamedTuple):
    """Why what something cost changed, nano-dollars."""

    before_nano: int
    after_nano: int
    price_nano: int
    quantity_nano: int


def driver_effects(
    tables: Tables, name_of: Callable[[LedgerKey], tuple[str, ...]], minutes: tuple[int, int, int]
) -> dict[tuple[str, ...], DriverEffects]:
    """By name: the change from minutes [first, split) to [split, end), at the price before and the amount after.

    A name must be of one unit; what was or is nothing has no price, so all of its change is one of quantity.
    """
    first, split, end = minutes
    cost: dict[tuple[tuple[str, ...], bool], int] = defaultdict(int)
    amount: dict[tuple[tuple[str, ...], bool], int] = defaultdict(int)
    for key, row in tables.ledger.items():
        if first <= key.minute < end:
            cost[name_of(key), key.minute >= split] += row.cost_nano
            amount[name_of(key), key.minute >= split] += row.quantity
    found = {}
    for name in {name for name, _ in amount}:
        before, after = cost[name, False], cost[name, True]
        quantity_nano = after - before
        if amount[name, False] and amount[name, True]:
            price = Fraction(before, amount[name, False])
            quantity_nano = round(price * (amount[name, True] - amount[name, False]))
        if before or after:
            found[name] = DriverEffects(before, after, after - before - quantity_nano, quantity_nano)
    return found
