"""Shows estimates as tables, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

from schemas.escaping import visible
from schemas.units import COMPONENTS
from streams.cli.output import Grid, OutputFormat, to_json, usd, write
from streams.cli.price_output import plain_usd
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.kinds import PriceRef
from streams.estimate.elsewhere import Comparison, Elsewhere, Side
from streams.estimate.forecast import Case, Forecast, Plan
from streams.estimate.past import Past
from streams.estimate.ran import Applied, RanJob
from streams.prices.findings import per_text

#: Of one side; a job may have lived through many.
_PRICES_SHOWN: Final = 6
_CASES: Final = {
    "planned": "{hours} h as planned, without retries",
    "with_retries": "{hours} h as planned, plus {more} that {jobs} past {many} lost",
    "median": "{hours} h, the median of {jobs} similar past {many}, retries included",
}
_COLUMNS: Final = ("case", "component", "basis", "price_usd", "per", "wall_clock_h", "gpu_h", "cost_usd")


def show_forecast(
    plan: Plan, found: Forecast, past: Past | None, book: PriceBook, at_ms: int, form: OutputFormat
) -> None:
    """Write a forecast to stdout."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    prices = _Prices(book)
    if form is OutputFormat.json:
        sys.stdout.write(to_json(_forecast_object(plan, found, past, at, prices)) + "\n")
        return
    write(Grid(_COLUMNS, [row for case in found.cases for row in _case_rows(case, prices, form)]), form)
    if form is OutputFormat.csv:
        return
    expected = next(case for case in found.cases if case.name == found.expected)
    sys.stdout.write(f"\nexpected: {usd(_usd(expected.cost_nano))} USD: {_basis(found, past)}\n")
    if past is None:
        sys.stdout.write("no similar completed job is in the store: price x time, without any retry\n")
        return
    kind = visible(", ".join(f"{name}={value}" for name, value in past.kind.items()))
    many = "job" if past.jobs == 1 else "jobs"
    sys.stdout.write(
        f"from {past.jobs} completed {many} ({kind}): median {_hours(past.median_ms)} h, p90 {_hours(past.p90_ms)} h, "
        f"{_ratio(past.attempts, past.jobs)} attempts a job, {_percent(past.lost_gpu_milli_ms, past.gpu_milli_ms)} of "
        "the GPU-time lost\n"
    )


def _basis(found: Forecast, past: Past | None) -> str:
    """Say how long the expected case takes, and by what."""
    jobs = 0 if past is None else past.jobs
    more = "" if past is None else _percent(past.lost_gpu_milli_ms, past.surviving_gpu_milli_ms)
    # Retries come on top of the first case, the hours as planned.
    hours = _hours(found.cases[0].wall_clock_ms).normalize()
    return _CASES[found.expected].format(
        hours=f"{hours:f}", more=more, jobs=jobs, many="job" if jobs == 1 else "jobs"
    )


def show_comparison(
    job_id: str,
    job: RanJob,
    there: Elsewhere,
    found: Comparison,
    book: PriceBook,
    form: OutputFormat,
    *,
    is_default: bool = False,
) -> None:
    """Write both sides to stdout, and what follows from them; `is_default`: the user named nothing that is different."""
    prices = _Prices(book)
    sides = {"as it ran": found.ran, "elsewhere": found.elsewhere}
    if form is OutputFormat.json:
        sys.stdout.write(to_json(_comparison_object(job_id, job, there, found, prices)) + "\n")
        return
    names = [name for name in COMPONENTS if name in found.ran.parts or name in found.elsewhere.parts]
    columns = (
        "side",
        "wall_clock_h",
        "gpu_h",
        *(f"{name}_usd" for name in names),
        "cost_usd",
        "lost_to_preemptions_usd",
    )
    rows = [
        (
            side,
            _hours(each.wall_clock_ms),
            _gpu_hours(each.gpu_milli_ms),
            *(_usd(each.parts.get(name, 0)) for name in names),
            _usd(each.cost_nano),
            _usd(each.lost_nano),
        )
        for side, each in sides.items()
    ]
    write(Grid(columns, rows), form)
    if form is OutputFormat.table:
        lines = [*_compared(sides, prices, there, is_default=is_default), *_said(job, there, found)]
        sys.stdout.write("\n" + "".join(f"{visible(line)}\n" for line in lines))


def _compared(
    sides: Mapping[str, Side], prices: _Prices, there: Elsewhere, *, is_default: bool
) -> Iterator[str]:
    """Say what was compared with what, and the prices of both."""
    if is_default:
        yield f"nothing named: compared with {there.fields['purchase']}"
    changes = [f"{name}={value}" for name, value in there.fields.items()]
    changes += [f"time x {_decimal(there.speed)}"] if there.speed != 1 else []
    for name, side in sides.items():
        paid = [prices.said(each) for each in side.prices]
        said = [", ".join(changes)] if side is sides["elsewhere"] else []
        said += (
            [", ".join(paid[:_PRICES_SHOWN]) + (", ..." if len(paid) > _PRICES_SHOWN else "")] if paid else []
        )
        yield f"{name}: {'; '.join(said)}"


def _said(job: RanJob, there: Elsewhere, found: Comparison) -> Iterator[str]:
    amount = usd(_usd(abs(found.saved_nano)))
    cheaper = "as it ran was cheaper by" if found.saved_nano >= 0 else "elsewhere would have been cheaper by"
    yield f"{cheaper} {amount} USD" if found.saved_nano else "both cost the same"
    if found.break_even_lost_nano is not None:
        spot, preempted = (
            _spot_side(found),
            f"{job.preemptions} preemptions " if found.ran.is_spot else "preemptions ",
        )
        yield (
            f"{_verdict(found)}: {preempted}cost {usd(_usd(spot.lost_nano))} USD on the spot side, where both sides cost "
            f"the same at {usd(_usd(found.break_even_lost_nano))} USD"
        )
        if there.past is not None:
            yield f"what spot loses is taken from similar completed spot jobs: {there.past.jobs}"
        elif found.elsewhere.is_spot:
            yield "no similar completed spot job is in the store: no preemption is assumed"
    if there.speed != 1 and found.break_even_speed is not None:
        yield f"both cost the same where time is multiplied by {_decimal(found.break_even_speed)}"


def _spot_side(found: Comparison) -> Side:
    return found.ran if found.ran.is_spot else found.elsewhere


def _verdict(found: Comparison) -> str:
    """Answer whether spot pays."""
    spot_saves = found.saved_nano if found.ran.is_spot else -found.saved_nano
    did = (
        ("spot paid", "spot did not pay")
        if found.ran.is_spot
        else ("spot would have paid", "spot would not have paid")
    )
    return did[0] if spot_saves > 0 else did[1]


class _Prices:
    """The prices of a book by SKU and first instant."""

    def __init__(self, book: PriceBook) -> None:
        self._known = {(event.sku, event.effective_ms): event for event in book.events}

    def per(self, price: Applied | PriceRef) -> str:
        """What it is for one of."""
        event = self._known.get((price.sku, price.effective_ms))
        return "" if event is None else per_text(event)

    def nano(self, price: Applied) -> int | None:
        """Its nano-dollars; None where the price list has it no more."""
        event = self._known.get((price.sku, price.effective_ms))
        return None if event is None else event.usd_nano

    def said(self, price: Applied) -> str:
        """Return it for people."""
        nano = self.nano(price)
        worth = "" if nano is None else f" at {plain_usd(nano)} USD per {self.per(price)}"
        return f"{price.component} by {price.sku}{worth}"


def _case_rows(case: Case, prices: _Prices, form: OutputFormat) -> Iterator[tuple[object, ...]]:
    hours, gpu_hours = _hours(case.wall_clock_ms), _gpu_hours(case.gpu_milli_ms)
    for part in case.parts:
        basis = "past jobs" if part.price is None else part.price.sku
        price = None if part.price is None else _usd(part.price.usd_nano)
        per = "" if part.price is None else prices.per(part.price)
        yield case.name, part.component, basis, price, per, hours, gpu_hours, _usd(part.cost_nano)
    if form is OutputFormat.table:
        yield case.name, "all", "", None, "", hours, gpu_hours, _usd(case.cost_nano)


def _forecast_object(
    plan: Plan, found: Forecast, past: Past | None, at: datetime, prices: _Prices
) -> dict[str, object]:
    cases = [
        {
            "case": case.name,
            "wall_clock_ms": case.wall_clock_ms,
            "gpu_h": _gpu_hours(case.gpu_milli_ms),
            "cost_usd": _usd(case.cost_nano),
            "components": [
                dict(
                    zip(
                        ("component", "basis", "price_usd", "per", "cost_usd"),
                        (*row[1:5], row[7]),
                        strict=True,
                    )
                )
                for row in _case_rows(case, prices, OutputFormat.json)
            ],
        }
        for case in found.cases
    ]
    expected = next(case for case in found.cases if case.name == found.expected)
    return {
        "priced_at": at,
        "gpus": Decimal(plan.gpu_milli).scaleb(-3),
        "fields": dict(plan.fields),
        "team": plan.team,
        "project": plan.project,
        "experiment": plan.experiment,
        "expected": found.expected,
        "expected_usd": _usd(expected.cost_nano),
        "jobs": 0 if past is None else past.jobs,
        "past": None
        if past is None
        else {
            "kind": dict(past.kind),
            "jobs": past.jobs,
            "median_ms": past.median_ms,
            "p90_ms": past.p90_ms,
            "attempts_per_job": _ratio(past.attempts, past.jobs),
            "gpu_milli_ms": past.gpu_milli_ms,
            "lost_gpu_milli_ms": past.lost_gpu_milli_ms,
        },
        "cases": cases,
    }


def _comparison_object(
    job_id: str, job: RanJob, there: Elsewhere, found: Comparison, prices: _Prices
) -> dict[str, object]:
    lost, speed = found.break_even_lost_nano, found.break_even_speed
    return {
        "job_id": job_id,
        "different": dict(there.fields),
        "speed_factor": _decimal(there.speed),
        "preemptions": job.preemptions,
        "as_it_ran": _side_object(found.ran, prices),
        "elsewhere": _side_object(found.elsewhere, prices),
        "saved_usd": _usd(found.saved_nano),
        "spot": None if lost is None else _verdict(found),
        "break_even_lost_usd": None if lost is None else _usd(lost),
        "break_even_speed_factor": None if speed is None else _decimal(speed),
        "spot_jobs": 0 if there.past is None else there.past.jobs,
    }


def _side_object(side: Side, prices: _Prices) -> dict[str, object]:
    return {
        "wall_clock_ms": side.wall_clock_ms,
        "gpu_h": _gpu_hours(side.gpu_milli_ms),
        "cost_usd": _usd(side.cost_nano),
        "lost_to_preemptions_usd": _usd(side.lost_nano),
        "components": {name: _usd(nano) for name, nano in side.parts.items()},
        "prices": [_price_object(each, prices) for each in side.prices],
    }


def _price_object(price: Applied, prices: _Prices) -> dict[str, object]:
    nano = prices.nano(price)
    amount = None if nano is None else _usd(nano)
    return {"component": price.component, "sku": price.sku, "price_usd": amount, "per": prices.per(price)}


def _usd(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


def _hours(ms: int) -> Decimal:
    return _decimal(Fraction(ms, 3_600_000))


def _gpu_hours(gpu_milli_ms: int) -> Decimal:
    return _decimal(Fraction(gpu_milli_ms, 3_600_000_000))


def _ratio(part: int, whole: int) -> Decimal:
    return _decimal(Fraction(part, whole)) if whole else Decimal(0)


def _percent(part: int, whole: int) -> str:
    return f"{_ratio(part * 100, whole):.1f} %"


def _decimal(value: Fraction) -> Decimal:
    """Return it with three decimals, for people and ratios."""
    return Decimal(round(value * 1000)).scaleb(-3)
