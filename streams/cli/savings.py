"""`trainfare savings`: what could be saved, and what spot has saved, as dollars of a month with the evidence."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Final

import typer

from schemas.counting import how_many
from streams.cli.known_hours import known_hours
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, usd, write_costs
from streams.cli.reading import Reader, reader_for
from streams.cli.spans import AskedSpan, takes_span
from streams.clock import SystemClock
from streams.costs.day_parts import Row
from streams.costs.idle_nodes import bounds_of
from streams.costs.parts import HourSpan
from streams.costs.savings import NAMES, SPOT_JOBS, spot_rows
from streams.costs.savings import savings as savings_of
from streams.errors import WrongUseError

#: Of fewer hours a month is a guess: nights and weekends are others.
_WEEK_HOURS: Final = 168
#: Each is priced elsewhere by itself, as `estimate --of` does.
_SPOT_JOBS_MAX: Final = 5_000


@takes_span
def savings(
    data: DataOption = None,
    *,
    asked: AskedSpan,
    spot: Annotated[bool, typer.Option(help="What jobs on spot saved, too; each takes some ms.")] = True,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 50,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what idle nodes and unused GPUs cost, and what jobs on spot saved, with the evidence."""
    settings = settings_for(data)
    span, _ = asked.in_zone(SystemClock().now_ms(), settings.calendar.calendar())
    with reader_for(data, url, settings=settings) as store:
        rows, hours = store.answered(savings_of(span))
        made = _spot(store, span, hours) if spot else []
        known = "" if rows or made else known_hours(store)
    if len(rows) > limit:
        rest = sum((row[3] for row in rows[limit:]), Decimal(0))
        sys.stderr.write(
            f"trainfare: {how_many(len(rows) - limit, 'more row')} of {usd(rest)} USD in all: --limit {len(rows)} shows them\n"
        )
    if not rows and not made:
        sys.stderr.write(f"trainfare: nothing idle, no unused GPU and no job on spot in this time; {known}\n")
    if (rows or made) and hours < _WEEK_HOURS:
        sys.stderr.write(
            f"trainfare: usd_per_month is by {how_many(hours, 'hour')} of the ledger, less than a week: nights and weekends may be others\n"
        )
    write_costs(Grid(NAMES, [*made, *rows[:limit]]), form, {"usd", "usd_per_month"})


def _spot(store: Reader, span: HourSpan, hours: int) -> list[Row]:
    """A row of all jobs on spot by team.

    Raises:
        WrongUseError: There are too many.
    """
    from streams.estimate.spot_savings import spot_saved

    jobs = store.records(SPOT_JOBS, **bounds_of(span), most=_SPOT_JOBS_MAX + 1)
    if len(jobs) > _SPOT_JOBS_MAX:
        raise WrongUseError(
            f"more than {_SPOT_JOBS_MAX} jobs on spot ended in this time: name a shorter one, or give --no-spot"
        )
    if not jobs:
        return []
    sums, unknown = spot_saved(store.records, jobs)
    if unknown:
        sys.stderr.write(
            f"trainfare: {how_many(len(unknown), 'job')} on spot cannot be priced on demand: left out; {unknown[0]}\n"
        )
    return spot_rows(sums, hours)
