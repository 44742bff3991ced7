"""Comparisons as objects that commands and the API show: dollars as decimals, hours with three digits."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from schemas.units import per_text
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.kinds import PriceRef
from streams.estimate.alternatives import Alternatives
from streams.estimate.elsewhere import Comparison, Elsewhere, Side, as_ran
from streams.estimate.forecast import Case
from streams.estimate.planned_places import PlannedPlaces
from streams.estimate.prices import not_in_price
from streams.estimate.ran import Applied, RanJob


class PriceNames:
    """The prices of a book by SKU and first instant."""

    def __init__(self, book: PriceBook) -> None:
        self.book = book
        self._known = {(event.sku, event.effective_ms): event for event in book.events}

    def per(self, price: Applied | PriceRef) -> str:
        """What it is for one of."""
        event = self._known.get((price.sku, price.effective_ms))
        return "" if event is None else per_text(event.per, event.gpus)

    def nano(self, price: Applied | PriceRef) -> int | None:
        """Its nano-dollars; None where the price list has it no more."""
        event = self._known.get((price.sku, price.effective_ms))
        return None if event is None else event.usd_nano


def comparison_object(
    job_id: str, job: RanJob, there: Elsewhere, found: Comparison, prices: PriceNames
) -> dict[str, object]:
    """Both sides of a comparison, and what follows from them."""
    lost = found.break_even_lost_nano
    return {
        "job_id": job_id,
        "different": dict(there.fields),
        "speed_factor": decimal_of(there.speed),
        "preemptions": job.preemptions,
        "as_it_ran": _side_object(found.ran, prices),
        "elsewhere": _side_object(found.elsewhere, prices),
        "not_in_price": not_in_price(prices.book, found.elsewhere.prices, there.fields),
        "saved_usd": usd_of(found.saved_nano),
        "spot": None if lost is None else verdict(found),
        "break_even_lost_usd": None if lost is None else usd_of(lost),
        "break_even_speed_factor": _factor(found.break_even_speed),
        "spot_jobs": 0 if there.past is None else there.past.jobs,
    }


def alternatives_object(of: Alternatives) -> dict[str, object]:
    """What a job would have cost elsewhere, the cheapest first; `difference_usd`: what more it would have cost there."""
    prices = PriceNames(of.book)
    return {
        "job_id": of.job_id,
        "preemptions": of.job.preemptions,
        "as_it_ran": _side_object(as_ran(of.job), prices),
        "places": [
            {
                "different": dict(each.there.fields),
                **_side_object(each.sides.elsewhere, prices),
                "not_in_price": not_in_price(of.book, each.sides.elsewhere.prices, each.there.fields),
                "difference_usd": usd_of(each.sides.saved_nano),
                "break_even_speed_factor": _factor(each.sides.break_even_speed),
                "spot_jobs": 0 if each.there.past is None else each.there.past.jobs,
            }
            for each in of.places
        ],
        "left_out": of.left_out,
        "later_prices": of.later_prices,
    }


def planned_object(of: PlannedPlaces, prices: PriceNames) -> dict[str, object]:
    """What a planned job would cost as planned and elsewhere, the cheapest first; `difference_usd`: what more it would cost there."""
    return {
        "as_planned": _case_object(of.planned, prices),
        "places": [
            {
                "different": each.fields,
                **_case_object(each.case, prices),
                "difference_usd": usd_of(each.case.cost_nano - of.planned.cost_nano),
                "break_even_speed_factor": _factor(of.same_cost_at(each)),
                "past_jobs": each.past_jobs,
                "not_in_price": not_in_price(prices.book, case_prices(each.case), each.fields),
            }
            for each in of.places
        ],
        "left_out": of.left_out,
    }


def case_prices(case: Case) -> list[PriceRef]:
    """The prices of a case."""
    return [part.price for part in case.parts if part.price is not None]


def _case_object(case: Case, prices: PriceNames) -> dict[str, object]:
    return {
        "case": case.name,
        "wall_clock_ms": case.wall_clock_ms,
        "gpu_h": gpu_hours_of(case.gpu_milli_ms),
        "cost_usd": usd_of(case.cost_nano),
        "components": {part.component: usd_of(part.cost_nano) for part in case.parts},
        "prices": [
            {
                "component": part.component,
                "sku": part.price.sku,
                "price_usd": usd_of(part.price.usd_nano),
                "per": prices.per(part.price),
            }
            for part in case.parts
            if part.price is not None
        ],
    }


def _side_object(side: Side, prices: PriceNames) -> dict[str, object]:
    return {
        "wall_clock_ms": side.wall_clock_ms,
        "gpu_h": gpu_hours_of(side.gpu_milli_ms),
        "cost_usd": usd_of(side.cost_nano),
        "lost_to_preemptions_usd": usd_of(side.lost_nano),
        "components": {name: usd_of(nano) for name, nano in side.parts.items()},
        "prices": [_price_object(each, prices) for each in side.prices],
    }


def _price_object(price: Applied, prices: PriceNames) -> dict[str, object]:
    nano = prices.nano(price)
    amount = None if nano is None else usd_of(nano)
    return {"component": price.component, "sku": price.sku, "price_usd": amount, "per": prices.per(price)}


def _factor(speed: Fraction | None) -> Decimal | None:
    return None if speed is None else decimal_of(speed)


def verdict(found: Comparison) -> str:
    """Answer whether spot pays."""
    spot_saves = found.saved_nano if found.ran.is_spot else -found.saved_nano
    did = (
        ("spot paid", "spot did not pay")
        if found.ran.is_spot
        else ("spot would have paid", "spot would not have paid")
    )
    return did[0] if spot_saves > 0 else did[1]


def usd_of(nano: int) -> Decimal:
    """Dollars, exactly."""
    return Decimal(nano).scaleb(-9)


def hours_of(ms: int) -> Decimal:
    """Hours with three decimals."""
    return decimal_of(Fraction(ms, 3_600_000))


def gpu_hours_of(gpu_milli_ms: int) -> Decimal:
    """GPU-hours with three decimals."""
    return decimal_of(Fraction(gpu_milli_ms, 3_600_000_000))


def decimal_of(value: Fraction) -> Decimal:
    """Return it with three decimals, for people and ratios."""
    return Decimal(round(value * 1000)).scaleb(-3)
