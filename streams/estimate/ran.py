"""A job that ran: its paid quantities by attempt, component and price step, and which of them preemptions cost it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import add
from typing import Any, Final, NamedTuple

from schemas.events import PRICE_FIELDS
from schemas.units import COMPONENTS

JOB: Final = """
SELECT team, project, experiment, state, toString(gpu_count) AS gpus, wall_clock_ms,
       arraySort(arrayMap((name, value) -> concat(name, '=', value), mapKeys(labels), mapValues(labels))) AS named
FROM jobs FINAL WHERE job_id = {job:String}
"""
ATTEMPTS: Final = f"""
SELECT attempt, state, {", ".join(PRICE_FIELDS)} FROM attempts FINAL WHERE job_id = {{job:String}} ORDER BY attempt
"""
SPAN: Final = """
SELECT toInt64(toUnixTimestamp(min(minute))) * 1000 AS from_ms, toInt64(toUnixTimestamp(max(minute))) * 1000 + 60000 AS until_ms
FROM job_minutes FINAL WHERE job_id = {job:String} AND quantity != 0 HAVING count() > 0
"""
#: A minute in which a price changes belongs to the step that holds at its end.
QUANTITIES: Final = """
SELECT attempt, component, unit, phase = 'starting' AS is_starting,
       arrayCount(instant -> instant < toInt64(toUnixTimestamp(minute)) * 1000 + 60000, {instants:Array(Int64)}) AS step,
       toString(sum(toInt128(quantity))) AS amount, toString(sum(toInt128(lost_quantity))) AS lost,
       toString(sum(toDecimal128(cost_usd, 9))) AS usd, toString(sum(toDecimal128(lost_cost_usd, 9))) AS lost_usd
FROM job_minutes FINAL WHERE job_id = {job:String} AND quantity != 0
GROUP BY attempt, component, unit, is_starting, step ORDER BY attempt, component, unit, is_starting, step
"""
#: Hours remain where minutes were dropped (meter.minutes_retention_days).
HOURS_COST: Final = f"""
SELECT toString(sum({" + ".join(f"toDecimal128({name}_cost_usd, 9)" for name in COMPONENTS)})) AS usd
FROM job_hours FINAL WHERE job_id = {{job:String}}
"""
#: Names of traffic's prices are the same elsewhere.
PRICES: Final = """
SELECT component, sku, toUnixTimestamp64Milli(price_effective) AS effective_ms
FROM job_minutes FINAL WHERE job_id = {job:String} AND quantity != 0 AND sku != '' AND unit IN {units:Array(String)}
GROUP BY component, sku, effective_ms ORDER BY component != 'gpu', component, effective_ms, sku
"""
PREEMPTED: Final = "preempted"


@dataclass(frozen=True)
class Attempt:
    """One attempt; `fields`: its PRICE_FIELDS as they ended."""

    number: int
    state: str
    fields: Mapping[str, str]


class Applied(NamedTuple):
    """A price that applied to time; it began to hold at `effective_ms`."""

    component: str
    sku: str
    effective_ms: int


class Paid(NamedTuple):
    """A paid quantity in one price step; `preempted_...` is the part of it that preemptions lost."""

    attempt: int
    component: str
    unit: str
    is_starting: bool
    step: int
    quantity: int
    lost_quantity: int
    preempted_quantity: int
    cost_nano: int
    preempted_nano: int


@dataclass(frozen=True)
class RanJob:
    """What a job paid; `starts_ms`: the instant at which each price step is priced; `labels`: as prices name them."""

    team: str
    project: str
    wall_clock_ms: int
    attempts: tuple[Attempt, ...]
    starts_ms: tuple[int, ...]
    paid: tuple[Paid, ...]
    prices: tuple[Applied, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def cost_nano(self) -> int:
        """What it cost, lost work included."""
        return sum(each.cost_nano for each in self.paid)

    @property
    def preempted_nano(self) -> int:
        """What preemptions cost: work lost to them, and starting again after them."""
        return sum(each.preempted_nano for each in self.paid)

    @property
    def preemptions(self) -> int:
        """The number of attempts that ended as preempted."""
        return sum(attempt.state == PREEMPTED for attempt in self.attempts)


def attempts_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """The attempts of the rows of `ATTEMPTS`."""
    return tuple(
        Attempt(row["attempt"], row["state"], {name: row[name] for name in PRICE_FIELDS if row[name]})
        for row in rows
    )


def paid_of(rows: Iterable[Mapping[str, Any]], attempts: tuple[Attempt, ...]) -> tuple[Paid, ...]:
    """The quantities of the rows of `QUANTITIES`.

    The start-up of an attempt is lost to what ended the attempt before it; other work to what ended its own. Rows of an
    attempt that began after `attempts` were read are left out.
    """
    states = {attempt.number: attempt.state for attempt in attempts}
    before = dict(zip(sorted(states)[1:], sorted(states), strict=False))
    found = []
    for row in rows:
        attempt, is_starting = int(row["attempt"]), bool(row["is_starting"])
        if attempt not in states:
            continue
        cause = states.get(before.get(attempt, attempt) if is_starting else attempt)
        lost, lost_nano = int(row["lost"]), nano_of(row["lost_usd"])
        found.append(
            Paid(
                attempt=attempt,
                component=row["component"],
                unit=row["unit"],
                is_starting=is_starting,
                step=int(row["step"]),
                quantity=int(row["amount"]),
                lost_quantity=lost,
                preempted_quantity=lost if cause == PREEMPTED else 0,
                cost_nano=nano_of(row["usd"]),
                preempted_nano=lost_nano if cause == PREEMPTED else 0,
            )
        )
    return tuple(found)


def coarser(job: RanJob, starts_ms: tuple[int, ...]) -> RanJob:
    """The job with fewer price steps, each of which begins where one of its own does; exact sums of its rows."""
    if starts_ms == job.starts_ms:
        return job
    step_of = [bisect_right(starts_ms, at_ms) - 1 for at_ms in job.starts_ms]
    sums: dict[tuple[int, str, str, bool, int], Paid] = {}
    for each in job.paid:
        each = each._replace(step=step_of[each.step])
        key = each[:5]
        known = sums.get(key)
        # Step and what stands before it are the key, what stands behind it is added.
        sums[key] = each if known is None else Paid(*key, *map(add, known[5:], each[5:]))
    return replace(job, starts_ms=starts_ms, paid=tuple(sums.values()))


def prices_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Applied, ...]:
    """The prices of the rows of `PRICES`."""
    return tuple(Applied(row["component"], row["sku"], int(row["effective_ms"])) for row in rows)


def nano_of(usd: str) -> int:
    """The nano-dollars of a decimal text."""
    return int(Decimal(usd).scaleb(9))
