"""`trainfare statement --team vision --month 2026-10`: what a team is charged in a month, for people and for programs."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.bill_months import say_utc_month
from streams.cli.close import CostOption, IdleOption, ShareOption, rules_of
from streams.cli.files import must_be_new, write_new
from streams.cli.options import DataOption, UrlOption, check_one_of, settings_for
from streams.cli.output import Grid, OutputFormat, to_json, write
from streams.cli.reading import reader_for
from streams.clock import SystemClock
from streams.costs.charge_sql import BillCost
from streams.costs.exact import exact_sum
from streams.costs.request import currency_of
from streams.costs.shares import Rule
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from streams.costs.statement import ShownCurrency, TeamStatement

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
    currency: Annotated[
        str,
        typer.Option(
            metavar="CODE",
            help="Charges in this currency, too, at the last rate of the month; a pdf in it: e.g. EUR.",
        ),
    ] = "",
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
    code = currency_of("--currency", currency)
    check_one_of(data, url)
    settings = settings_for(data)
    from streams.cli.shown_currency import LOADS_RATES, rate_of
    from streams.costs.statement import ShownCurrency, statement_of

    with reader_for(data, url, settings=settings) as store:
        shown = ShownCurrency(rate_of(store, code, month, SystemClock().now_ms()) if code else None)
        found = statement_of(store, team, month, rules)
    say_utc_month(month, settings.calendar.calendar())
    notes = [f"{visible(each.words)}; {LOADS_RATES}" for each in found.without_rate]
    sys.stderr.write("".join(f"trainfare: {note}\n" for note in notes))
    if form is StatementFormat.pdf:
        from streams.cli.statement_pdf import written_pdf

        assert out is not None
        pages = written_pdf(found, shown)
        write_new(out, lambda file: file.write(pages))
        sys.stdout.write(
            f"{out}: {visible(found.title)}, {month}: {_total(found, shown)}{'' if found.closed else ', not closed'}\n"
        )
        return
    text = _text(found, form, shown)
    if out is None:
        sys.stdout.write(text)
    else:
        write_new(out, lambda file: file.write(text.encode()))


def _total(found: TeamStatement, shown: ShownCurrency) -> str:
    """The total, and of another currency at which rate."""
    from streams.costs.statement import DOLLARS

    said, amount = (each.said(*each.cents([found.total_usd])) for each in (DOLLARS, shown))
    if shown.rate is None:
        return f"{said} USD"
    return f"{amount} {shown.code} ({said} USD at {shown.rate.words()})"


def _text(found: TeamStatement, form: StatementFormat, shown: ShownCurrency) -> str:
    if form is StatementFormat.json:
        return to_json(found.record(shown)) + "\n"
    stream = io.StringIO()
    if form is StatementFormat.csv:
        named = found.records(shown)
        write(Grid(tuple(named[0]), [tuple(row.values()) for row in named]), OutputFormat.csv, stream)
    else:
        _write_table(found, shown, stream)
    return stream.getvalue()


def _write_table(found: TeamStatement, shown: ShownCurrency, stream: TextIO) -> None:
    from streams.costs.statement import DOLLARS, PARTS, gpu_hours

    currencies = (DOLLARS,) if shown.rate is None else (DOLLARS, shown)

    def in_each(amounts_usd: Sequence[Decimal]) -> list[tuple[str, ...]]:
        """Dollars in cents that sum, as in the PDF, and the same in another currency."""
        columns = [[each.said(cents) for cents in each.cents(amounts_usd)] for each in currencies]
        return [*zip(*columns, strict=True)]

    state = (
        f"closed {found.closed}, manifest {found.manifest_sha256}" if found.closed else "open: it may change"
    )
    stream.write(f"{visible(found.title)}, {found.month} of UTC ({state})\n\n")
    codes: tuple[str, ...] = () if shown.rate is None else (shown.code,)
    own, late = found.own, found.adjustments
    parts = [(title, amount) for name, title in PARTS if (amount := found.amount(name))]
    parts += [(f"Adjustment of {each.of_month}: {each.reason}", each.charge_usd) for each in late]
    amounts = [*in_each([amount for _, amount in parts]), *in_each([found.total_usd])]
    titles = [*(title for title, _ in parts), "Total"]
    rows = [(title, *cells) for title, cells in zip(titles, amounts, strict=True)]
    write(Grid(("", "usd", *codes), rows), OutputFormat.table, stream)
    if len(found.projects) > 1 or (found.projects and found.projects[0].name):
        stream.write("\n")
        charges = in_each([each.charge_usd for each in found.projects])
        groups = [
            (each.name or "(none)", each.jobs, each.gpu_h, *cells)
            for each, cells in zip(found.projects, charges, strict=True)
        ]
        write(Grid(("project", "jobs", "gpu_h", "charge_usd", *codes), groups), OutputFormat.table, stream)
    stream.write("\n")
    kept, rest = own[:_JOBS_SHOWN], own[_JOBS_SHOWN:]
    jobs = [(row.subject, row.key[2], row.key[3], gpu_hours([row]), row.charge_usd) for row in kept]
    if rest:
        left = f"{how_many(len(rest), 'more job')}: --format csv has all"
        jobs.append((left, "", "", gpu_hours(rest), exact_sum(row.charge_usd for row in rest)))
    charges = in_each([each[-1] for each in jobs])
    lines = [(*each[:-1], *cells) for each, cells in zip(jobs, charges, strict=True)]
    write(Grid(("job", "project", "owner", "gpu_h", "charge_usd", *codes), lines), OutputFormat.table, stream)
    if shown.rate is not None:
        stream.write(f"\n{shown.rate.converted(found.total_usd)} at {shown.rate.words()}\n")
