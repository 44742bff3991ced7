"""`trainfare allocation load` and `show`: by which rules lines that many use together are split, and what each took."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

import typer

from streams.cli.lists import load_files
from streams.cli.options import DataOption, UrlOption
from streams.cli.output import FormatOption, Grid, OutputFormat, write_costs
from streams.cli.reading import reader_for
from streams.cli.spans import MonthOption

_WANTED: Final = "name a file of allocation rules (docs/shared_lines.md)"
_SHOW: Final = """
SELECT r.rule_name AS rule, r.match AS match, r.split AS split, r.shares AS shares, if(r.from_time = toDateTime('2000-01-01', 'UTC'), '', toString(toDate(r.from_time))) AS first,
    if(r.to_time = toDateTime('2100-01-01', 'UTC'), '', toString(toDate(r.to_time))) AS until, ifNull(a.lines, 0) AS lines, ifNull(a.usd, 0) AS effective_usd
FROM (SELECT * FROM allocation_rules FINAL WHERE is_removed = 0) AS r
LEFT ANY JOIN
(
    SELECT rule, uniqExact(load_id, line) AS lines, sum(effective_usd) AS usd
    FROM bill_allocations
    WHERE rule != '' AND ({month:String} = '' OR formatDateTime(month, '%Y-%m') = {month:String})
    GROUP BY rule
) AS a ON a.rule = r.rule_name
ORDER BY r.place, rule
"""


def load(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="All rules, in TOML; those that it leaves out are removed.")
    ],
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Load the rules by which support, taxes, a shared database and the like are split, and allocate bills by them."""
    load_files([file], "allocation_rules", _WANTED, data, url)


def show(
    data: DataOption = None,
    month: MonthOption = "",
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the rules in their order, with the lines that each took: of one month, or of all."""
    with reader_for(data, url) as store:
        rows = store.records(_SHOW, month=month)
    if not rows:
        sys.stderr.write(
            f"trainfare: no allocation rules are loaded: `trainfare allocation load`; {_WANTED}\n"
        )
    taking = [row for row in rows if not row["lines"]]
    columns = ("rule", "match", "split", "first", "until", "lines", "effective_usd")
    grid = Grid(columns, [_cells(row, form) for row in rows])
    write_costs(grid, form, {"effective_usd"})
    if taking:
        names = ", ".join(str(row["rule"]) for row in taking)
        sys.stderr.write(f"trainfare: took no line of a bill that is allocated: {names}\n")


def _cells(row: dict[str, object], form: OutputFormat) -> tuple[object, ...]:
    from streams.bills.values import trimmed

    match, shares = dict(row["match"]), dict(row["shares"])  # type: ignore[call-overload]  # maps, as the store says
    split: object = {team: trimmed(Decimal(share)) for team, share in shares.items()} or row["split"]
    if form is not OutputFormat.json:
        match = " ".join(f"{name}={text}" for name, text in match.items())
        split = (
            " ".join(f"{team}={trimmed(Decimal(share))}" for team, share in shares.items()) or row["split"]
        )
    return row["rule"], match, split, row["first"], row["until"], row["lines"], row["effective_usd"]
