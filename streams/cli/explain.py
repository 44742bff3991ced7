"""`trainfare explain ID`: every interval of one job's cost, with its quantity, price and rule.

It must not end on a sum that differs from `job_costs` without saying so.
"""

from __future__ import annotations

import dataclasses
import sys
from decimal import Decimal
from typing import Annotated

import typer

from streams.cli.jobs import costs_of
from streams.cli.options import DataOption, settings_for
from streams.cli.output import Format, FormatOption, Grid, plain, stamp, to_json, write
from streams.cli.reading import reader
from streams.errors import TrainfareError
from streams.explain.intervals import Interval, exact, merged, total_usd

_ROWS = """
SELECT l.minute AS minute, l.attempt AS attempt, l.node AS node, l.component AS component, l.phase AS phase,
       l.sku AS sku, l.price_effective AS price_effective, l.price_usd AS price_usd, l.quantity AS quantity,
       l.unit AS unit, l.cost_usd AS cost_usd, l.lost_cost_usd AS lost_cost_usd, l.lost_quantity AS lost_quantity,
       p.per AS per, p.gpus AS gpus, p.match AS match, a.started AS started, a.ended AS ended
FROM ledger AS l
LEFT JOIN (SELECT attempt, started, ended FROM attempts FINAL WHERE job_id = {job:String}) AS a
  ON a.attempt = l.attempt
LEFT JOIN (SELECT sku, effective, per, gpus, match FROM prices FINAL) AS p
  ON p.sku = l.sku AND p.effective = l.price_effective
WHERE l.job_id = {job:String}
"""


def explain(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    data: DataOption = None,
    minute: Annotated[
        bool, typer.Option("--minute", help="One line a minute: the rows of the ledger.")
    ] = False,
    form: FormatOption = Format.table,
) -> None:
    """Explain one job's cost: each interval [from, to) with its quantity, price, price revision and rule."""
    with reader(settings_for(data).clickhouse) as store:
        booked = Decimal(str(costs_of(store, job_id)["cost_usd"]))
        records = store.records(_ROWS, job=job_id)
        state = None if minute else store.state_of(job_id)
    intervals = None if state is None else exact(state, records)
    if intervals is None:
        # Rows by minute; so too while a worker stores rows that its last snapshot does not know yet.
        intervals = merged(records, by_minute=minute)
    total = total_usd(intervals)
    if form is Format.json:
        lines = [dataclasses.asdict(each) for each in intervals]
        sys.stdout.write(to_json({"job_id": job_id, "intervals": lines, "total_usd": total}) + "\n")
    elif form is Format.csv:
        names = tuple(field.name for field in dataclasses.fields(Interval))
        write(Grid(names, [dataclasses.astuple(each) for each in intervals]), form)
    else:
        write(_grid(intervals), form)
        many = "interval" if len(intervals) == 1 else "intervals"
        sys.stdout.write(f"total {plain(total)} USD in {len(intervals)} {many}\n")
    if total != booked:
        raise TrainfareError(
            f"job {job_id}: its intervals sum to {plain(total)} USD, but job_costs says {plain(booked)}; "
            "ask again: rows may have been restated between the two questions"
        )


def _grid(intervals: list[Interval]) -> Grid:
    columns = (
        "from",
        "to",
        "att",
        "node",
        "component",
        "phase",
        "quantity",
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
