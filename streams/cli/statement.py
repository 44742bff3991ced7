"""`trainfare statement --team vision --month 2026-10`: what a team is charged in a month, for people and for programs."""

from __future__ import annotations

import io
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.close import CostOption, IdleOption, ShareOption, rules_of
from streams.cli.files import must_be_new, write_new
from streams.cli.options import DataOption, UrlOption
from streams.cli.output import Grid, OutputFormat, to_json, usd, write
from streams.cli.reading import reader_for
from streams.costs.charge_sql import BillCost
from streams.costs.shares import Rule
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from streams.costs.statement import TeamStatement

_JOBS_SHOWN: Final = 15


class StatementFormat(StrEnum):
    """The form of a statement."""

    table = "table"
    pdf = "pdf"
    csv = "csv"
    json = "json"


def statement(
    team: Annotated[str, typer.Option(metavar="TEAM", help="Whose jobs.")],
    month: Annotated[str, typer.Option(metavar="MONTH", help="The month (UTC), e.g. 2026-10.")],
    form: Annotated[
        StatementFormat,
        typer.Option("--format", "-f", help="table, pdf (a page or two), csv (every job) or json."),
    ] = StatementFormat.table,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this new file; pdf needs it.")
    ] = None,
    cost: CostOption = BillCost.effective,
    idle: IdleOption = Rule.NONE,
    share_unallocated: ShareOption = Rule.NONE,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Write a team's statement: as the month was closed; of an open month as it would be closed now, by --cost, --idle and --share-unallocated."""
    if form is StatementFormat.pdf:
        if out is None:
            raise WrongUseError("--format pdf needs --out FILE")
        from streams.cli.statement_pdf import must_have_reportlab

        must_have_reportlab()
    if out is not None:
        must_be_new(out)
    rules = rules_of(cost, idle, share_unallocated)
    from streams.costs.statement import statement_of

    with reader_for(data, url) as store:
        found = statement_of(store, team, month, rules)
    if form is StatementFormat.pdf:
        from streams.cli.statement_pdf import written_pdf

        assert out is not None
        pages = written_pdf(found)
        write_new(out, lambda file: file.write(pages))
        sys.stdout.write(
            f"{out}: {visible(found.title)}, {month}: {usd(found.total_usd)} USD{'' if found.closed else ', not closed'}\n"
        )
        return
    text = _text(found, form)
    if out is None:
        sys.stdout.write(text)
    else:
        write_new(out, lambda file: file.write(text.encode()))


def _text(found: TeamStatement, form: StatementFormat) -> str:
    if form is StatementFormat.json:
        return to_json(found.record()) + "\n"
    stream = io.StringIO()
    if form is StatementFormat.csv:
        named = found.records
        write(Grid(tuple(named[0]), [tuple(row.values()) for row in named]), OutputFormat.csv, stream)
    else:
        _write_table(found, stream)
    return stream.getvalue()


def _write_table(found: TeamStatement, stream: TextIO) -> None:
    from streams.costs.statement import PARTS, gpu_hours

    state = (
        f"closed {found.closed}, manifest {found.manifest_sha256}" if found.closed else "open: it may change"
    )
    stream.write(f"{visible(found.title)}, {found.month} ({state})\n\n")
    own = found.own
    rows = [(title, usd(amount)) for name, title in PARTS if (amount := found.amount(name))]
    rows += [
        (f"Adjustment of {each.of_month}: {each.reason}", usd(each.charge_usd)) for each in found.adjustments
    ]
    write(Grid(("", "usd"), [*rows, ("Total", usd(found.total_usd))]), OutputFormat.table, stream)
    if len(found.projects) > 1 or (found.projects and found.projects[0].name):
        stream.write("\n")
        groups = [
            (each.name or "(none)", each.jobs, each.gpu_h, usd(each.charge_usd)) for each in found.projects
        ]
        write(Grid(("project", "jobs", "gpu_h", "charge_usd"), groups), OutputFormat.table, stream)
    stream.write("\n")
    jobs = [
        (row.subject, row.key[2], row.key[3], gpu_hours([row]), usd(row.charge_usd))
        for row in own[:_JOBS_SHOWN]
    ]
    write(Grid(("job", "project", "owner", "gpu_h", "charge_usd"), jobs), OutputFormat.table, stream)
    if len(own) > _JOBS_SHOWN:
        stream.write(f"and {how_many(len(own) - _JOBS_SHOWN, 'more job')}: --format csv has all\n")
