"""`trainfare costs`: a metric by any levels, per hour, day, week or month."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.costs_shown import grid_of, over_time, shown, shown_drivers
from streams.cli.known_hours import known_hours
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, OutputFormat, to_json, write
from streams.cli.reading import reader
from streams.cli.spans import AskedSpan, takes_span
from streams.clock import SystemClock
from streams.costs.answer import cost_steps, unpriced_steps
from streams.costs.driver_cells import driver_steps
from streams.costs.idle import left_out_note, left_out_sql
from streams.costs.parts import HourSpan
from streams.costs.request import (
    HOUR_LEVELS,
    JOB_LEVELS,
    NETWORK_LEVELS,
    ROWS_MAX,
    STORAGE_LEVELS,
    Metric,
    Period,
    calendar_of,
    request_of,
)
from streams.errors import WrongUseError
from streams.prices.label_gaps import label_gap_steps

_BY_HELP: Final = (
    f"job; of a job: {', '.join(JOB_LEVELS)}, label:KEY; price fields: {', '.join(HOUR_LEVELS)}; "
    f"of an attempt: reason; m6 only: {', '.join(STORAGE_LEVELS)}; m7 only: {', '.join(NETWORK_LEVELS)}; "
    "m3 only: node. May be repeated."
)


@takes_span
def costs(
    data: DataOption = None,
    metric: Annotated[Metric, typer.Option(help="The metric: docs/cost_metrics.md, metrics.")] = Metric.total,
    by: Annotated[list[str] | None, typer.Option(metavar="LEVEL[,LEVEL]", help=_BY_HELP)] = None,
    per: Annotated[Period, typer.Option(help="Length of a cell in time.")] = Period.all,
    *,
    asked: AskedSpan,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL=NAME",
            help="Only these, e.g. team=vision; may be repeated: names of one level mean any of them.",
        ),
    ] = None,
    compare: Annotated[
        str, typer.Option(metavar="previous", help="Show the change against the period before.")
    ] = "",
    drivers: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000,
            metavar="N",
            help="With --compare previous, --from and --to: what explains the change.",
        ),
    ] = 0,
    drivers_by_sku: Annotated[
        bool, typer.Option("--drivers-by-sku", help="Explain the change by SKU, too.")
    ] = False,
    slo_usd_per_hour: Annotated[
        str, typer.Option(metavar="USD", help="Of m10: what an hour of run time may cost.")
    ] = "",
    slo_target: Annotated[
        str, typer.Option(metavar="SHARE", help="The share of run time that must not cost more (0.95).")
    ] = "",
    expected: Annotated[
        bool,
        typer.Option("--expected", help="Of m10: beside the rate that was expected, of the last 7 days."),
    ] = False,
    quality: Annotated[
        str, typer.Option(metavar="NAME", help="Of m9: a measure of quality that jobs report.")
    ] = "",
    progress: Annotated[
        str, typer.Option(metavar="NAME", help="Of m9: a progress that jobs report, e.g. step.")
    ] = "",
    currency: Annotated[
        str,
        typer.Option(metavar="CODE", help="The cost in this currency, too, with its rate and day: e.g. EUR."),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help="Maximum number of rows.")] = ROWS_MAX,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what was paid, over time and by any levels (job, owner, team...)."""
    settings = settings_for(data)
    calendar = calendar_of("--tz", asked.tz, settings.calendar.calendar())
    now_ms = SystemClock().now_ms()
    span = asked.resolved(now_ms, calendar=calendar)
    request = request_of(
        {
            "metric": [metric],
            "by": by or [],
            "per": [per],
            "from": [span.first],
            "to": [span.until],
            "where": where or [],
            "compare": [compare],
            "drivers": [str(drivers or "")],
            "drivers_by_sku": ["1" if drivers_by_sku else ""],
            "slo_usd_per_hour": [slo_usd_per_hour],
            "slo_target": [slo_target],
            "expected": ["1" if expected else ""],
            "quality": [quality],
            "progress": [progress],
            "limit": [str(limit)],
            "currency": [currency],
        },
        lambda name: f"--{name.replace('_', '-')}",
        calendar,
    )
    if request.drivers and form is OutputFormat.csv:
        raise WrongUseError("--format csv holds one table: leave out --drivers, or use --format json")
    with reader(settings) as store:
        found = store.answered(cost_steps(request, now_ms))
        known = "" if found.rows else known_hours(store, of_nodes=request.metric is Metric.m3)
        gaps = store.answered(label_gap_steps()) if request.metric is Metric.m1 else []
        left_out = None
        if request.metric is Metric.m3:
            sql, bound = left_out_sql(HourSpan(request.from_ms, request.to_ms))
            (left_out,) = store.records(sql, **bound)
        unpriced = store.answered(unpriced_steps(request, found))
        causes = None
        if request.drivers:
            causes = store.answered(driver_steps(request, has_before=found.has_before))
    if left_out is not None:
        sys.stderr.write(left_out_note(left_out))
    sys.stderr.writelines(f"trainfare: {visible(each)}\n" for each in gaps)
    if found.note:
        sys.stderr.write(f"trainfare: {found.note}\n")
    if unpriced:
        sys.stderr.write(f"trainfare: {unpriced}\n")
    if found.is_cut:
        sys.stderr.write(
            f"trainfare: {_said_cut(limit, found.left_out, has_total=form is OutputFormat.table)}\n"
        )
    if form is OutputFormat.json:
        rows: object = found.rows if causes is None else {"rows": found.rows, "drivers": causes.rows}
        sys.stdout.write(to_json(rows) + "\n")
        return
    # Pictures are for people at a terminal: what is piped stays as it was.
    is_seen = form is OutputFormat.table and sys.stdout.isatty()
    write(shown(request, found, has_bars=is_seen) if form is OutputFormat.table else grid_of(found), form)
    if is_seen and (lines := over_time(request, found)) is not None:
        sys.stdout.write("\nOver time\n")
        write(lines, form)
    if form is OutputFormat.table and not found.rows:
        sys.stderr.write(f"nothing matches; {known}\n")
    if causes is not None and found.has_before:
        sys.stdout.write("\nDrivers of the change (USD)\n")
        write(shown_drivers(causes), form)


def _said_cut(limit: int, left_out: int | None, *, has_total: bool) -> str:
    """That rows are left out, how many if that is known, and what shows them."""
    shown = (
        how_many(limit, "row is", "rows are")
        if left_out is None
        else f"{limit:,} of {limit + left_out:,} rows are"
    )
    said = f"only {shown} shown{', and no total' if has_total else ''}"
    fewer = "fewer levels (--by), longer periods (--per) or a part (--where)"
    if limit == ROWS_MAX:
        return f"{said}: ask for {fewer}"
    if left_out is not None and limit + left_out <= ROWS_MAX:
        return f"{said}: --limit {limit + left_out} shows all"
    return f"{said}: give a larger --limit ({ROWS_MAX:,} at most), or ask for {fewer}"
