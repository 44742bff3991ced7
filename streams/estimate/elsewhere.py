"""What a job that ran would have cost elsewhere: another type of GPU with a speed factor, spot or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.events import Component
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Context
from streams.engine.pricing.kinds import KIND_OF_UNIT, TIME_COMPONENTS, Kind
from streams.estimate.amounts import cost_nano, half_even
from streams.estimate.past import Past
from streams.estimate.prices import context_of, time_prices
from streams.estimate.ran import Applied, Paid, RanJob

SPOT: Final = "spot"


@dataclass(frozen=True)
class Elsewhere:
    """What is different: price fields, and the factor that multiplies time there; `past`: similar spot jobs."""

    fields: Mapping[str, str] = field(default_factory=dict)
    speed: Fraction = Fraction(1)
    past: Past | None = None


class Side(NamedTuple):
    """One side of the comparison; `lost_nano` is what preemptions cost, within `cost_nano`; `prices`: those of its time."""

    is_spot: bool
    gpu_milli_ms: int
    wall_clock_ms: int
    cost_nano: int
    lost_nano: int
    parts: Mapping[str, int]
    prices: tuple[Applied, ...] = ()


class Comparison(NamedTuple):
    """Both sides, and where they would cost the same.

    `break_even_lost_nano`: what preemptions on the one spot side may cost until both cost the same; None unless one side
    is spot. `break_even_speed`: the speed factor at which both do; None where time costs nothing there.
    """

    ran: Side
    elsewhere: Side
    break_even_lost_nano: int | None
    break_even_speed: Fraction | None

    @property
    def saved_nano(self) -> int:
        """What running as it did saved; negative: elsewhere is cheaper."""
        return self.elsewhere.cost_nano - self.ran.cost_nano


def contexts(job: RanJob, there: Elsewhere) -> dict[int, Context]:
    """The price context of each attempt elsewhere."""
    return {
        attempt.number: context_of({**attempt.fields, **there.fields}, job.team, job.project)
        for attempt in job.attempts
    }


def compared(job: RanJob, there: Elsewhere, book: PriceBook) -> Comparison:
    """Both sides.

    Raises:
        TrainfareError: GPU-time is unpriced elsewhere.
    """
    ran = as_ran(job)
    moves = {attempt.number: _Move.of(attempt.fields, there) for attempt in job.attempts}
    by_time, gpu_milli_ms, prices = _time_costs(job, there, book, moves, surviving=False)
    surviving, *_ = _time_costs(job, there, book, moves, surviving=True)
    kept: dict[str, int] = {}
    kept_lost = 0
    for each in job.paid:
        if KIND_OF_UNIT[each.unit] not in TIME_COMPONENTS:
            gone = each.preempted_nano if moves[each.attempt].leaves_spot else 0
            _add(kept, each.component, each.cost_nano - gone)
            kept_lost += each.preempted_nano - gone if moves[each.attempt].is_spot else 0
    time_nano = sum(by_time.values())
    for component, nano in kept.items():
        _add(by_time, component, nano)
    longer = Fraction(gpu_milli_ms, ran.gpu_milli_ms) if ran.gpu_milli_ms else there.speed
    elsewhere = Side(
        is_spot=any(move.is_spot for move in moves.values()),
        gpu_milli_ms=gpu_milli_ms,
        wall_clock_ms=half_even(job.wall_clock_ms * longer.numerator, longer.denominator),
        cost_nano=sum(by_time.values()),
        lost_nano=time_nano - sum(surviving.values()) + kept_lost,
        parts=by_time,
        prices=prices,
    )
    at_par = Fraction(ran.cost_nano - sum(kept.values()), time_nano) * there.speed if time_nano else None
    return Comparison(ran, elsewhere, _lost_at_par(ran, elsewhere), at_par)


class _Move(NamedTuple):
    """How an attempt's capacity differs elsewhere; `retries`: paid over surviving GPU-time of similar spot jobs."""

    is_spot: bool
    leaves_spot: bool
    goes_spot: bool
    retries: Fraction

    @classmethod
    def of(cls, fields: Mapping[str, str], there: Elsewhere) -> _Move:
        was = fields.get("purchase") == SPOT
        now = there.fields.get("purchase", fields.get("purchase")) == SPOT
        retries = Fraction(1)
        if there.past is not None and there.past.surviving_gpu_milli_ms > 0:
            retries = Fraction(there.past.gpu_milli_ms, there.past.surviving_gpu_milli_ms)
        return cls(now, was and not now, now and not was, retries)

    def quantity(self, each: Paid, *, surviving: bool) -> Fraction:
        """What would have been paid there at the same speed; `surviving`: without preemptions."""
        if self.goes_spot:
            # What past spot jobs lost stands for the job's own preemptions; what failures lost is lost there, too.
            work = each.quantity - each.preempted_quantity
            return Fraction(work) if surviving else work * self.retries
        if self.leaves_spot or (self.is_spot and surviving):
            return Fraction(each.quantity - each.preempted_quantity)
        return Fraction(each.quantity)


def as_ran(job: RanJob) -> Side:
    """The side of what it paid."""
    parts: dict[str, int] = {}
    for each in job.paid:
        _add(parts, each.component, each.cost_nano)
    gpu_milli_ms = sum(each.quantity for each in job.paid if each.component == Component.gpu)
    was_spot = any(attempt.fields.get("purchase") == SPOT for attempt in job.attempts)
    return Side(
        was_spot, gpu_milli_ms, job.wall_clock_ms, job.cost_nano, job.preempted_nano, parts, job.prices
    )


def _time_costs(
    job: RanJob, there: Elsewhere, book: PriceBook, moves: Mapping[int, _Move], *, surviving: bool
) -> tuple[dict[str, int], int, tuple[Applied, ...]]:
    """The cost of each component per time there, the GPU-time there (gpu_milli_ms) and the prices of both."""
    context_by_attempt = contexts(job, there)
    costs: dict[str, int] = {}
    gpu_time = Fraction(0)
    prices: dict[Applied, None] = {}
    for kind, each in _times(job):
        quantity = moves[each.attempt].quantity(each, surviving=surviving) * there.speed
        if kind is Kind.GPU_TIME:
            gpu_time += quantity
        at_ms = job.starts_ms[each.step]
        for price in time_prices(book, context_by_attempt[each.attempt], kind, at_ms, job.labels):
            prices[Applied(price.component, price.sku, price.effective_ms)] = None
            _add(costs, price.component, cost_nano(quantity.numerator, price, over=quantity.denominator))
    return costs, half_even(gpu_time.numerator, gpu_time.denominator), tuple(prices)


def _times(job: RanJob) -> Iterator[tuple[Kind, Paid]]:
    """Yield each quantity of time once, whichever components have paid for it."""
    found: dict[tuple[int, str, bool, int], Paid] = {}
    for each in job.paid:
        # Several components may pay for the same GPU-time or job time; GPU rows have all of the GPU-time.
        key = (each.attempt, each.unit, each.is_starting, each.step)
        if each.component == Component.gpu or key not in found:
            found[key] = each
    for each in found.values():
        kind = KIND_OF_UNIT[each.unit]
        if kind in TIME_COMPONENTS:
            yield kind, each


def _lost_at_par(ran: Side, elsewhere: Side) -> int | None:
    if ran.is_spot == elsewhere.is_spot:
        return None
    spot, other = (ran, elsewhere) if ran.is_spot else (elsewhere, ran)
    return other.cost_nano - (spot.cost_nano - spot.lost_nano)


def _add(sums: dict[str, int], name: str, value: int) -> None:
    sums[name] = sums.get(name, 0) + value
