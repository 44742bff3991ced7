"""`trainfare bills export`: our ledger rows as charges of FOCUS 1.2."""

from __future__ import annotations

import sys
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.bill_months import say_utc_days
from streams.cli.bills import day_of
from streams.cli.files import must_be_new, write_new
from streams.cli.options import DataOption, settings_for
from streams.cli.output import Grid, to_csv
from streams.cli.reading import reader
from streams.cli.spans import AskedSpan, LastOption, LastWeekOption, MonthOption, Step
from streams.clock import SystemClock
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from sinks.clickhouse import QueryResult

#: What a worker answers at most.
_ROWS_MAX: Final = 1_000_000
_CHARGES: Final = """
SELECT * FROM focus_charges
WHERE ChargePeriodStart >= {first:String} AND ChargePeriodStart < {until:String}
ORDER BY ChargePeriodStart, x_JobId, x_AttemptId, x_Component, x_Phase, SkuId, ResourceId
LIMIT {limit:UInt64}
"""


class ExportFormat(StrEnum):
    """The format of the file."""

    csv = "csv"
    parquet = "parquet"


def export(
    data: DataOption = None,
    first: Annotated[str, typer.Option("--from", metavar="DAY", help="First day, e.g. 2026-10-01.")] = "",
    until: Annotated[str, typer.Option("--to", metavar="DAY", help="The day after the last one.")] = "",
    last: LastOption = "",
    last_week: LastWeekOption = False,
    month: MonthOption = "",
    form: Annotated[ExportFormat, typer.Option("--format", "-f", help="csv or parquet.")] = ExportFormat.csv,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Write what was metered as charges in the FOCUS format."""
    if form is ExportFormat.parquet and out is None:
        raise WrongUseError("--format parquet needs --out FILE")
    if out is not None:
        must_be_new(out)
    asked = AskedSpan(first=first, until=until, last=last, last_week=last_week, month=month)
    begin, end = asked.resolved(SystemClock().now_ms(), Step.day)
    span = {
        "first": day_of("--from", begin, date(2000, 1, 1)),
        "until": day_of("--to", end, date(2105, 1, 1)),
    }
    settings = settings_for(data)
    with reader(settings) as store:
        answer = store.ask(_CHARGES, **span, limit=_ROWS_MAX)
    write_file(answer, form, out)
    say_utc_days(month, settings.calendar.calendar())


def write_file(answer: QueryResult, form: ExportFormat, out: Path | None) -> None:
    """Write the rows.

    Raises:
        WrongUseError: There are more than a million, or there is a file of this name.
        TrainfareError: It cannot be written.
    """
    rows = list(answer.rows())
    if len(rows) >= _ROWS_MAX:
        raise WrongUseError(f"{_ROWS_MAX} rows or more; --from and --to export fewer days")
    if form is ExportFormat.parquet:
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert out is not None
        columns = {name: [_in_parquet(row[at]) for row in rows] for at, name in enumerate(answer.names)}
        write_new(out, lambda file: pq.write_table(pa.table(columns), file))
        return
    shown = [[_cell(cell) for cell in row] for row in rows]
    text = to_csv(Grid(answer.names, shown))
    if out is None:
        sys.stdout.write(text)
        return
    write_new(out, lambda file: file.write(text.encode()))


def _cell(cell: object) -> object:
    """An instant and tags as FOCUS has them in text."""
    if hasattr(cell, "strftime"):
        return cell.strftime("%Y-%m-%dT%H:%M:%SZ")
    return _in_parquet(cell)


def _in_parquet(cell: object) -> object:
    """Tags as FOCUS has them: JSON."""
    import orjson

    if isinstance(cell, dict):
        return orjson.dumps(cell, option=orjson.OPT_SORT_KEYS).decode()
    return cell
