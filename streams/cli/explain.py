"""`trainfare explain ID`: every interval of one job's cost, with its quantity, price and rule.

It must report if the sum differs from `job_costs`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.units import readable
from streams.cli.dead_letters.of_job import refused_in_words, refused_of
from streams.cli.jobs import unknown
from streams.cli.options import DataOption, UrlOption
from streams.cli.output import FormatOption, Grid, OutputFormat, plain, stamp, to_json, write
from streams.cli.reading import reader_for
from streams.errors import TrainfareError

if TYPE_CHECKING:
    from streams.explain.intervals import Interval

_WHY = {
    "too_large": "the stored state of the job's shard is too large to be read for one question",
    "no_state": "no snapshot has the state of this job, nor the archive",
    "differs": "rows and state did not agree; ask again after the next checkpoint",
}


def explain(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    data: DataOption = None,
    url: UrlOption = None,
    minute: Annotated[
        bool, typer.Option("--minute", help="One line per minute: the rows of the ledger.")
    ] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Explain one job's cost: each interval [from, to) with its quantity, price, price revision and rule."""
    with reader_for(data, url) as store:
        found = store.explained(job_id, by_minute=minute)
        refused = refused_of(store, job_id)
    said = refused_in_words(refused, job_id, data)
    if found is None:
        raise unknown(job_id, said)
    intervals, total, booked = found.intervals, found.total_usd, found.booked_usd
    if form is OutputFormat.json:
        lines = [dataclasses.asdict(each) for each in intervals]
        answer = {"job_id": job_id, "intervals": lines, "total_usd": total, "dead_letters": refused.records()}
        sys.stdout.write(to_json(answer) + "\n")
    elif form is OutputFormat.csv:
        from streams.explain.intervals import Interval

        names = tuple(field.name for field in dataclasses.fields(Interval))
        write(Grid(names, [dataclasses.astuple(each) for each in intervals]), form)
    else:
        write(_grid(intervals), form)
        many = "interval" if len(intervals) == 1 else "intervals"
        sys.stdout.write(f"total {plain(total)} USD in {len(intervals)} {many}\n")
        if found.fallback:
            sys.stdout.write(f"by the minute: {_WHY[found.fallback]}\n")
    if said and form is not OutputFormat.json:
        (sys.stderr if form is OutputFormat.csv else sys.stdout).write(f"trainfare: {said}\n")
    if total != booked:
        raise TrainfareError(
            f"job {job_id}: its intervals sum to {plain(total)} USD, but job_costs says {plain(booked)}; "
            "ask again: rows may have been restated between the two questions. Of a job of long ago, minutes may have been "
            "dropped (meter.minutes_retention_days)"
        )


def _grid(intervals: Sequence[Interval]) -> Grid:
    columns = (
        "from",
        "to",
        "att",
        "node",
        "component",
        "phase",
        "quantity",
        "in the ledger",
        "price",
        "revision",
        "usd",
        "lost",
        "rule",
    )
    rows = [
        (
            stamp(each.begin),
            stamp(each.end),
            each.attempt,
            each.node,
            each.component,
            each.phase,
            readable(each.quantity, each.unit),
            f"{each.quantity} {each.unit}",
            f"{each.price_usd.normalize():f}/{each.per} ({each.sku})" if each.sku else "",
            stamp(each.revision) if each.sku else "",
            plain(each.cost_usd),
            plain(each.lost_cost_usd) if each.lost_cost_usd else "",
            each.rule,
        )
        for each in intervals
    ]
    return Grid(columns, rows)
