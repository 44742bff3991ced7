"""Shows estimates as tables, JSON or CSV."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.counting import how_many
from schemas.escaping import visible
from schemas.events import Component
from schemas.units import COMPONENTS
from streams.cli.output import Grid, OutputFormat, to_json, usd, write
from streams.cli.price_output import plain_usd
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.kinds import PriceRef
from streams.estimate.alternatives import Alternatives
from streams.estimate.elsewhere import SPOT, Comparison, Elsewhere, Side, as_ran
from streams.estimate.forecast import Case, Forecast, Plan
from streams.estimate.past import Past
from streams.estimate.planned_places import PlannedPlaces
from streams.estimate.ran import Applied, RanJob
from streams.estimate.shown import (
    PriceNames,
    alternatives_object,
    case_prices,
    comparison_object,
    decimal_of,
    gpu_hours_of,
    hours_of,
    planned_object,
    usd_of,
    verdict,
)

#: Of one side; a job may have lived through many.
_PRICES_SHOWN: Final = 6
_CASES: Final = {
    "planned": "{hours} h as planned, without retries",
    "with_retries": "{hours} h as planned, plus {more} that {jobs} past {many} lost",
    "median": "{hours} h, the median of {jobs} similar past {many}, retries included",
}
_COLUMNS: Final = ("case", "component", "basis", "price_usd", "per", "wall_clock_h", "gpu_h", "cost_usd")


def show_forecast(
    plan: Plan,
    found: Forecast,
    past: Past | None,
    book: PriceBook,
    at_ms: int,
    form: OutputFormat,
    like: str = "",
    missing: Mapping[str, str] | None = None,
) -> None:
    """Write a forecast to stdout; `like`: the job that it is made from; `missing`: asked fields that its price does not name."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    prices = _Prices(book)
    if form is OutputFormat.json:
        shown = _forecast_object(plan, found, past, at, prices) | {"not_in_price": dict(missing or {})}
        sys.stdout.write(to_json(shown) + "\n")
        return
    write(Grid(_COLUMNS, [row for case in found.cases for row in _case_rows(case, prices, form)]), form)
    if form is OutputFormat.csv:
        return
    expected = next(case for case in found.cases if case.name == found.expected)
    sys.stdout.write(f"\nexpected: {usd(usd_of(expected.cost_nano))} USD: {_basis(found, past)}\n")
    if past is None:
        sys.stdout.write("no similar completed job is in the store: price x time, without any retry\n")
        return
    kind = visible(", ".join(f"{name}={value}" for name, value in past.kind.items()))
    many = "job" if past.jobs == 1 else "jobs"
    sys.stdout.write(
        f"from {past.jobs} {many} that completed at any time ({kind}): median {hours_of(past.median_ms)} h, "
        f"p90 {hours_of(past.p90_ms)} h, {_ratio(past.attempts, past.jobs)} attempts a job, "
        f"{_percent(past.lost_gpu_milli_ms, past.gpu_milli_ms)} of the GPU-time lost\n"
    )
    if like:
        sys.stdout.write(
            f"`trainfare job {shlex.quote(visible(like))}` has other medians: it compares with the other jobs of the 30 days before its end\n"
        )


def _basis(found: Forecast, past: Past | None) -> str:
    """Say how long the expected case takes, and by what."""
    jobs = 0 if past is None else past.jobs
    more = "" if past is None else _percent(past.lost_gpu_milli_ms, past.surviving_gpu_milli_ms)
    # Retries come on top of the first case, the hours as planned.
    hours = hours_of(found.cases[0].wall_clock_ms).normalize()
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
        sys.stdout.write(to_json(comparison_object(job_id, job, there, found, prices)) + "\n")
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
            hours_of(each.wall_clock_ms),
            gpu_hours_of(each.gpu_milli_ms),
            *(usd_of(each.parts.get(name, 0)) for name in names),
            usd_of(each.cost_nano),
            usd_of(each.lost_nano),
        )
        for side, each in sides.items()
    ]
    write(Grid(columns, rows), form)
    if form is OutputFormat.table:
        lines = [*_compared(sides, prices, there, is_default=is_default), *_said(job, there, found)]
        sys.stdout.write("\n" + "".join(f"{visible(line)}\n" for line in lines))


def show_alternatives(of: Alternatives, form: OutputFormat) -> None:
    """Write what a job would have cost at each place to stdout, the cheapest first, and what was left out."""
    if form is OutputFormat.json:
        sys.stdout.write(to_json(alternatives_object(of)) + "\n")
        return
    ran, prices = as_ran(of.job), _Prices(of.book)
    lines = [_PlaceLine("as it ran", ran.prices, ran.wall_clock_ms, ran.gpu_milli_ms, ran.cost_nano, 0, None)]
    for each in of.places:
        side = each.sides.elsewhere
        more, speed = each.sides.saved_nano, each.sides.break_even_speed
        time = (side.wall_clock_ms, side.gpu_milli_ms)
        lines.append(_PlaceLine(_fields(each.there.fields), side.prices, *time, side.cost_nano, more, speed))
    _write_places(lines, prices, form)
    if form is OutputFormat.table:
        sys.stdout.write("".join(f"{line}\n" for line in _said_of(of)))


def show_planned_places(of: PlannedPlaces, book: PriceBook, form: OutputFormat) -> None:
    """Write what a planned job would cost at each place to stdout, the cheapest first, and what was left out."""
    prices = _Prices(book)
    if form is OutputFormat.json:
        sys.stdout.write(to_json(planned_object(of, prices)) + "\n")
        return
    lines = []
    for where, case, speed in (
        ("as planned", of.planned, None),
        *((_fields(each.fields), each.case, of.same_cost_at(each)) for each in of.places),
    ):
        more = case.cost_nano - of.planned.cost_nano
        time = (case.wall_clock_ms, case.gpu_milli_ms)
        lines.append(_PlaceLine(where, case_prices(case), *time, case.cost_nano, more, speed))
    _write_places(lines, prices, form)
    if form is OutputFormat.table:
        sys.stdout.write("".join(f"{line}\n" for line in _said_of_planned(of)))


class _PlaceLine(NamedTuple):
    """A place as it is shown."""

    where: str
    prices: Sequence[Applied | PriceRef]
    wall_clock_ms: int
    gpu_milli_ms: int
    cost_nano: int
    more_nano: int
    same_cost_at: Fraction | None


def _fields(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in fields.items())


def _write_places(lines: Iterable[_PlaceLine], prices: _Prices, form: OutputFormat) -> None:
    columns = ("place", "price", "wall_clock_h", "gpu_h", "cost_usd", "difference_usd", "same_cost_at_time_x")
    people = form is OutputFormat.table
    rows = [
        (
            line.where,
            ", ".join(prices.short(each) for each in line.prices if prices.is_of_gpus(each)),
            hours_of(line.wall_clock_ms),
            gpu_hours_of(line.gpu_milli_ms),
            *(usd(usd_of(nano)) if people else usd_of(nano) for nano in (line.cost_nano, line.more_nano)),
            None if line.same_cost_at is None else decimal_of(line.same_cost_at),
        )
        for line in lines
    ]
    write(Grid(columns, rows), form)


def _said_of_planned(of: PlannedPlaces) -> Iterator[str]:
    """Say what the table rests on."""
    if not of.places:
        yield "no other price of GPU-time is in force"
    if any("gpu_type" in each.fields for each in of.places):
        yield "another GPU type is priced as if the job took as long there; same_cost_at_time_x says how much longer it may take"
    if any(each.fields.get("purchase") == SPOT and not each.past_jobs for each in of.places):
        yield "no similar completed spot job is in the store: no more preemptions are assumed on spot than elsewhere"
    if of.left_out:
        yield f"{of.left_out} more places of the price list were not priced: name their fields in place of --everywhere"


def _said_of(of: Alternatives) -> Iterator[str]:
    """Say what the table rests on."""
    if not of.places:
        yield "no other price of GPU-time held while it ran"
    if any("gpu_type" in each.there.fields for each in of.places):
        yield "another GPU type is priced as if the job took as long there; same_cost_at_time_x says how much longer it may take"
    if of.left_out:
        yield f"{of.left_out} more places of the price list were not compared: `--of JOB` with their fields compares one"
    if of.later_prices:
        yield f"{of.later_prices} SKUs of GPU-time have no price that held while it ran"


def _compared(
    sides: Mapping[str, Side], prices: _Prices, there: Elsewhere, *, is_default: bool
) -> Iterator[str]:
    """Say what was compared with what, and the prices of both."""
    if is_default:
        yield f"nothing named: compared with {there.fields['purchase']}"
    changes = [f"{name}={value}" for name, value in there.fields.items()]
    changes += [f"time x {decimal_of(there.speed)}"] if there.speed != 1 else []
    for name, side in sides.items():
        paid = [prices.said(each) for each in side.prices]
        said = [", ".join(changes)] if side is sides["elsewhere"] else []
        said += (
            [", ".join(paid[:_PRICES_SHOWN]) + (", ..." if len(paid) > _PRICES_SHOWN else "")] if paid else []
        )
        yield f"{name}: {'; '.join(said)}"


def _said(job: RanJob, there: Elsewhere, found: Comparison) -> Iterator[str]:
    amount = usd(usd_of(abs(found.saved_nano)))
    cheaper = "as it ran was cheaper by" if found.saved_nano >= 0 else "elsewhere would have been cheaper by"
    yield f"{cheaper} {amount} USD" if found.saved_nano else "both cost the same"
    if found.break_even_lost_nano is not None:
        yield f"{verdict(found)}: {_of_preemptions(job, found, found.break_even_lost_nano)}"
        if there.past is not None:
            yield f"what spot loses is taken from similar completed spot jobs: {there.past.jobs}"
        elif found.elsewhere.is_spot:
            yield "no similar completed spot job is in the store: no preemption is assumed"
    if there.speed != 1 and found.break_even_speed is not None:
        yield f"both cost the same where time is multiplied by {decimal_of(found.break_even_speed)}"


def _of_preemptions(job: RanJob, found: Comparison, break_even_nano: int) -> str:
    """Say what preemptions cost on the spot side, and from what on the other side is cheaper."""
    lost, most = (usd(usd_of(nano)) for nano in (_spot_side(found).lost_nano, max(break_even_nano, 0)))
    if found.ran.is_spot:
        many = how_many(job.preemptions, "preemption")
        cost = f"{many} cost {lost} USD"
    else:
        cost = f"preemptions would cost about {lost} USD"
    if break_even_nano < 0:
        return f"{cost}, and without any it is dearer, too"
    return f"{cost}; it is cheaper as long as they cost less than {most} USD"


def _spot_side(found: Comparison) -> Side:
    return found.ran if found.ran.is_spot else found.elsewhere


class _Prices(PriceNames):
    """The prices of a book, for people."""

    def is_of_gpus(self, price: Applied | PriceRef) -> bool:
        """Whether GPU-time pays it."""
        return price.component == Component.gpu

    def short(self, price: Applied | PriceRef) -> str:
        """Return its SKU and what it is."""
        nano = self.nano(price)
        return price.sku if nano is None else f"{price.sku} {plain_usd(nano)}/{self.per(price)}"

    def said(self, price: Applied) -> str:
        """Return it for people."""
        nano = self.nano(price)
        worth = "" if nano is None else f" at {plain_usd(nano)} USD per {self.per(price)}"
        return f"{price.component} by {price.sku}{worth}"


def _case_rows(case: Case, prices: _Prices, form: OutputFormat) -> Iterator[tuple[object, ...]]:
    hours, gpu_hours = hours_of(case.wall_clock_ms), gpu_hours_of(case.gpu_milli_ms)
    for part in case.parts:
        basis = "past jobs" if part.price is None else part.price.sku
        price = None if part.price is None else usd_of(part.price.usd_nano)
        per = "" if part.price is None else prices.per(part.price)
        yield case.name, part.component, basis, price, per, hours, gpu_hours, usd_of(part.cost_nano)
    if form is OutputFormat.table:
        yield case.name, "all", "", None, "", hours, gpu_hours, usd_of(case.cost_nano)


def _forecast_object(
    plan: Plan, found: Forecast, past: Past | None, at: datetime, prices: _Prices
) -> dict[str, object]:
    cases = [
        {
            "case": case.name,
            "wall_clock_ms": case.wall_clock_ms,
            "gpu_h": gpu_hours_of(case.gpu_milli_ms),
            "cost_usd": usd_of(case.cost_nano),
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
        "expected_usd": usd_of(expected.cost_nano),
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


def _ratio(part: int, whole: int) -> Decimal:
    return decimal_of(Fraction(part, whole)) if whole else Decimal(0)


def _percent(part: int, whole: int) -> str:
    return f"{_ratio(part * 100, whole):.1f} %"
