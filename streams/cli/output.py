"""Writes rows for people or programs: rich tables on a terminal, plain text, JSON or CSV on request or in pipes.

JSON and CSV have every digit, money as decimal strings. A name can neither control a terminal nor run in a
spreadsheet: tables and CSV are escaped, even in pipes, and JSON is by escapes of its own.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import StrEnum
from typing import Annotated, Any, TextIO

import orjson
import typer

from schemas.counting import how_many
from schemas.currencies import USUAL_DECIMALS, decimals_of
from schemas.escaping import visible, visible_json

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_RUNS = frozenset("=+-@")
#: Figures for people are rounded half up; sums of a store have up to 76 digits.
_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)
_LEAST_USD = Decimal("0.000000001")
#: Decimals of a column of dollars: cents; four, to see two digits of what is small, unless beside what is large. What is
#: less than half a nano-dollar does not count. The page has the same rule: `decimals` in format.js.
_FINE = 4
_SMALL_USD = Decimal("0.1")
_LARGE_USD = 100
_NOTHING_USD = _LEAST_USD / 2
#: Separators of spreadsheets, whatever the country.
_QUOTED = frozenset('",;')


class OutputFormat(StrEnum):
    """The output format of rows."""

    table = "table"
    json = "json"
    csv = "csv"


FormatOption = Annotated[
    OutputFormat, typer.Option("--format", "-f", help="table (plain text where piped), json or csv.")
]


@dataclass(frozen=True, slots=True)
class Grid:
    """Named columns and their rows."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def records(self) -> list[dict[str, object]]:
        """Each row as an object."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Usd(str):
    """Money for people, as `usd` formats one amount; a table gives the amounts of a column one number of decimals."""

    __slots__ = ("amount", "currency", "words")
    amount: Decimal
    currency: str
    words: str

    @classmethod
    def of(cls, amount: Decimal, shown: str, words: str = "{}", currency: str = "USD") -> Usd:
        """An amount, its figure, the words around it, and the code of its currency."""
        made = cls(words.format(shown))
        made.amount, made.words, made.currency = amount, words, currency
        return made

    def within(self, words: str) -> Usd:
        """The same amount with words around it, in which `{}` stands for the figure."""
        return Usd.of(self.amount, str(self), words, self.currency)

    def to(self, decimals: int) -> Usd:
        """The amount with so many decimals; what would be rounded to zero is less than the last of them."""
        least = Decimal(1).scaleb(-decimals)
        rounded = _WIDE.quantize(self.amount, least)
        if self.amount and not rounded:
            shown = f"<{least:f}" if self.amount > 0 else f">-{least:f}"
        else:
            shown = f"{rounded:,f}"
        return Usd.of(self.amount, shown, self.words, self.currency)


def usd(value: object) -> Usd:
    """Format dollars for people: cents, and more digits where cents would hide the amount; never zero for what is none."""
    amount = Decimal(str(value))
    return Usd.of(amount, _alone(amount))


def money(value: object, currency: str) -> Usd:
    """Format an amount of a currency for people, as dollars are; one that has no hundredths has the decimals that it has."""
    amount = Decimal(str(value))
    found = Usd.of(amount, _alone(amount), currency=currency)
    return found if decimals_of(currency) == USUAL_DECIMALS else found.to(decimals_of(currency))


def _alone(amount: Decimal) -> str:
    if amount == 0 or abs(amount) >= Decimal("0.01"):
        least = Decimal("0.01" if abs(amount) >= 1 or amount == 0 else "0.0001")
        return f"{_WIDE.quantize(amount, least):,f}"
    if abs(amount) < _LEAST_USD:
        return f"<{_LEAST_USD:f}" if amount > 0 else f">-{_LEAST_USD:f}"
    return f"{amount:.9f}".rstrip("0")


def even(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The rows with one number of decimals for the money of each column that has a name."""
    lines = [list(row) for row in rows]
    for at, name in enumerate(columns):
        amounts = [line[at] for line in lines if isinstance(line[at], Usd)]
        if name and amounts:
            decimals = column_decimals([each.amount for each in amounts], amounts[0].currency)
            for line in lines:
                if isinstance(line[at], Usd):
                    line[at] = line[at].to(decimals)
    return lines


def column_decimals(amounts: Iterable[Decimal], currency: str = "USD") -> int:
    """How many decimals the amounts of a column have."""
    usual = decimals_of(currency)
    sizes = [size for each in amounts if (size := abs(each)) >= _NOTHING_USD]
    is_fine = usual == USUAL_DECIMALS and sizes and min(sizes) < _SMALL_USD and max(sizes) < _LARGE_USD
    return _FINE if is_fine else usual


def rounded(grid: Grid, money: Collection[str], *, is_owned: bool = False) -> Grid:
    """Round the dollars of columns for people; `is_owned`: say of an empty team that nobody owns the row."""
    at = {number for number, name in enumerate(grid.columns) if name in money}
    team = {number for number, name in enumerate(grid.columns) if name == "team" and is_owned}

    def shown(number: int, cell: Any) -> Any:
        if number in at and cell is not None:
            return usd(cell)
        return "unallocated" if number in team and cell == "" else cell

    return Grid(grid.columns, [[shown(*cell) for cell in enumerate(row)] for row in grid.rows])


def write_costs(grid: Grid, form: OutputFormat, money: Collection[str], *, is_owned: bool = True) -> None:
    """Write rows; the dollars of these columns exactly, or rounded for people."""
    write(rounded(grid, money, is_owned=is_owned) if form is OutputFormat.table else grid, form)


def plain(value: object) -> str:
    """A cell's exact value as text; missing values and NULL are empty."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in sorted(value.items()))
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def minute_text(at_ms: int) -> str:
    """Format an instant (ms since 1970) to the minute, with the name of its zone."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def stamp(at: datetime) -> str:
    """Format a UTC instant, with milliseconds only if it has some."""
    return at.strftime("%Y-%m-%d %H:%M:%S") + (f".{at.microsecond // 1000:03d}" if at.microsecond else "")


def to_json(value: object) -> str:
    """Encode as JSON; money is a decimal string, instants are ISO 8601 in UTC."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
    return visible_json(orjson.dumps(value, default=plain, option=options).decode())


def say_none(rows: Sized, form: OutputFormat, words: str) -> None:
    """Say to people, on stderr, that there are no rows, and what to do, where there are none."""
    if not rows and form is OutputFormat.table:
        sys.stderr.write(f"trainfare: {words}\n")


def say_full(rows: Sized, form: OutputFormat, limit: int) -> None:
    """Say to people, on stderr, that there may be more rows than the limit, where there are as many."""
    if len(rows) >= limit and form is OutputFormat.table:
        sys.stderr.write(
            f"trainfare: the first {how_many(limit, 'row is', 'rows are')} shown, and there may be more: give a larger --limit\n"
        )


def write(grid: Grid, form: OutputFormat, stream: TextIO | None = None) -> None:
    """Write rows in the requested format."""
    out = sys.stdout if stream is None else stream
    if form is OutputFormat.json:
        out.write(to_json(grid.records()) + "\n")
    elif form is OutputFormat.csv:
        out.write(to_csv(grid))
    else:
        shown = Grid(grid.columns, even(grid.columns, grid.rows))
        if out.isatty():
            from streams.cli.terminal_table import draw  # loads Rich, which only a terminal needs

            cells = [[visible(plain(cell)) for cell in row] for row in shown.rows]
            draw([visible(name) for name in shown.columns], cells, _numeric(shown), out)
        else:
            out.write(_aligned(shown))


def write_summary(summary: Mapping[str, object], labels: Mapping[str, str], form: OutputFormat) -> None:
    """Write named figures: an object, one row of CSV, or a line each, under its label or its name."""
    if form is OutputFormat.json:
        sys.stdout.write(to_json(summary) + "\n")
    elif form is OutputFormat.csv:
        write(Grid(tuple(summary), [tuple(summary.values())]), form)
    else:
        lines = [(labels.get(name, name.replace("_", " ")), value) for name, value in summary.items()]
        write(Grid(("", ""), lines), form)


def to_csv(grid: Grid) -> str:
    """Encode as CSV, escaped as tables are; what a spreadsheet would execute as a formula is prefixed with `'`.

    Also behind a `;`: where that separates, a spreadsheet may begin a cell there in spite of the quotes.
    """
    lines = [",".join(map(_csv_cell, row)) for row in (grid.columns, *grid.rows)]
    # A line with a single empty cell would be a blank line.
    return "".join(f"{line or _quoted(line)}\n" for line in lines)


def _csv_cell(cell: object) -> str:
    text = plain(cell)
    if isinstance(cell, (int, float, Decimal)):
        return text
    shown = ";".join(f"'{visible(part)}" if _would_run(part) else visible(part) for part in text.split(";"))
    return shown if _QUOTED.isdisjoint(shown) and not _would_run(text) else _quoted(shown)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _would_run(text: str) -> bool:
    """Whether a spreadsheet would treat the text as a formula, ignoring what it skips before one."""
    if text[:1] in ("\t", "\r", "\n"):
        return True
    first = next((each for each in text if each.isprintable() and not each.isspace()), "")
    return unicodedata.normalize("NFKC", first)[:1] in _RUNS and _NUMBER.fullmatch(text) is None


def _numeric(grid: Grid) -> list[bool]:
    """Which columns are right-aligned: those of numbers alone, and those of dollars whatever else is in them."""
    return [
        bool(grid.rows)
        and (
            all(_is_number(row[at]) for row in grid.rows)
            or (bool(name) and any(isinstance(row[at], Usd) for row in grid.rows))
        )
        for at, name in enumerate(grid.columns)
    ]


def _is_number(cell: object) -> bool:
    if isinstance(cell, str):
        return cell.replace(",", "").replace(".", "").lstrip("-").isdecimal() or not cell
    return isinstance(cell, (int, float, Decimal)) or cell is None


def _aligned(grid: Grid) -> str:
    """Columns of spaces, for logs and pipes."""
    cells = [[visible(plain(cell)) for cell in row] for row in grid.rows]
    if any(grid.columns):
        cells.insert(0, [visible(name) for name in grid.columns])
    widths = [max((len(row[at]) for row in cells), default=0) for at in range(len(grid.columns))]
    right = _numeric(grid)
    lines = (
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)
