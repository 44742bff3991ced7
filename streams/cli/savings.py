"""`trainfare savings`: what could be saved, and what spot has saved, as dollars of a month with the evidence."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Final

import typer

from streams.cli.options import DataOption, UrlOption
from streams.cli.output import FormatOption, Grid, OutputFormat, rounded, write
from streams.cli.reading import Reader, reader_for
from streams.cli.spans import AskedSpan, LastOption, LastWeekOption, MonthOption
from streams.clock import SystemClock
from streams.costs.day_parts import Row
from streams.costs.idle_nodes import bounds_of
from streams.costs.parts import HourSpan
from streams.costs.savings import NAMES, SPOT, SPOT_JOBS, per_month
from streams.costs.savings import savings as savings_of
from streams.errors import TrainfareError, WrongUseError

#: Each is priced elsewhere by itself, as `estimate --of` does.
_SPOT_JOBS_MAX: Final = 5_000


def savings(
    data: DataOption = None,
    from_: Annotated[str, typer.Option("--from", metavar="DATE", help="First hour, e.g. 2026-10-01.")] = "",
    to: Annotated[str, typer.Option(metavar="DATE", help="First hour that does not count.")] = "",
    last: LastOption = "",
    last_week: LastWeekOption = False,
    month: MonthOption = "",
    spot: Annotated[bool, typer.Option(help="What jobs on spot saved, too; each takes some ms.")] = True,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 50,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what idle nodes and unused GPUs cost, and what jobs on spot saved, with the evidence."""
    asked = AskedSpan(first=from_, until=to, last=last, last_week=last_week, month=month)
    span = asked.hours(SystemClock().now_ms())
    with reader_for(data, url) as store:
        rows, hours = store.answered(savings_of(span))
        made = _spot(store, span, hours) if spot else []
    if len(rows) > limit:
        rest = sum((row[3] for row in rows[limit:]), Decimal(0))
        sys.stderr.write(f"trainfare: {len(rows) - limit} more, together {rest:.2f} USD: --limit\n")
    if not rows and not made:
        sys.stderr.write("trainfare: nothing idle, no unused GPU and no job on spot in this time\n")
    grid = Grid(NAMES, [*made, *rows[:limit]])
    write(
        rounded(grid, {"usd", "usd_per_month"}, is_owned=True) if form is OutputFormat.table else grid, form
    )


def _spot(store: Reader, span: HourSpan, hours: int) -> list[Row]:
    """A row of all jobs on spot by team: what on demand would have cost more, as `estimate --of` has it of each.

    Raises:
        WrongUseError: There are too many.
    """
    from streams.estimate.asking import ON_DEMAND, ran_job, stored_book
    from streams.estimate.elsewhere import Elsewhere, compared

    jobs = store.records(SPOT_JOBS, **bounds_of(span), most=_SPOT_JOBS_MAX + 1)
    if len(jobs) > _SPOT_JOBS_MAX:
        raise WrongUseError(
            f"more than {_SPOT_JOBS_MAX} jobs on spot ended in this time: name a shorter one, or give --no-spot"
        )
    if not jobs:
        return []
    book, there = stored_book(store.records, ""), Elsewhere({"purchase": ON_DEMAND})
    sums: dict[str, tuple[int, int, int]] = {}
    unknown: list[str] = []
    for job in jobs:
        team, job_id = str(job["team"]), str(job["job_id"])
        try:
            found = compared(ran_job(store.records, job_id, there, book), there, book)
        except TrainfareError as fault:
            unknown.append(f"{job_id}: {fault}")
            continue
        saved, lost, count = sums.get(team, (0, 0, 0))
        sums[team] = saved + found.saved_nano, lost + found.ran.lost_nano, count + 1
    if unknown:
        sys.stderr.write(
            f"trainfare: {len(unknown)} jobs on spot cannot be priced on demand, and are left out; {unknown[0]}\n"
        )
    rows: list[Row] = []
    for team, (saved, lost, count) in sorted(sums.items(), key=lambda each: (-each[1][0], each[0])):
        usd = Decimal(saved).scaleb(-9)
        said = f"{count} jobs on spot, beside the on-demand price; preemptions cost {Decimal(lost).scaleb(-9):.2f} USD of it"
        rows.append((SPOT, "", team, usd, per_month(usd, hours), said))
    return rows
