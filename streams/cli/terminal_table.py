"""Draws a table for a terminal: names and texts are broken where it is too narrow, and where that does not help rows become blocks of lines."""

from __future__ import annotations

import re
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PARTS = re.compile(r"[^_ ]*[_ ]|[^_ ]+")
#: A word of a table is not broken up to this many characters; the space between columns.
_UNBROKEN = 48
_GAP = 2
#: A sentence with less room beside the names is left to the terminal to wrap.
_ROOM = 24


def draw(heads: list[str], cells: list[list[str]], is_right: list[bool], out: TextIO) -> None:
    """Draw rows of texts that control no terminal; `is_right`: which columns are aligned to the right."""
    console = Console(file=out)
    widths = _widths(heads, cells, console.width)
    if widths is None:
        _sideways(heads, cells, console)
        return
    table = Table(box=None, header_style="bold", pad_edge=False, show_header=any(heads))
    for name, right, width in zip(heads, is_right, widths, strict=True):
        table.add_column(
            Text(_folded(name, width)), justify="right" if right else "left", overflow="fold", width=width
        )
    for row in cells:
        table.add_row(*map(Text, row))  # Text: brackets in data are no markup
    console.print(table)


def _widths(heads: list[str], cells: list[list[str]], most: int) -> list[int] | None:
    """The columns' widths; None: without breaking numbers or ids the table is too wide.

    Where needed, names of columns are broken at `_`, then texts between words, the widest column first.
    """
    columns = list(zip(heads, *cells, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [
        max(
            *(min(cell_len(part), _UNBROKEN) for part in head.replace("_", "_ ").split(" ")),
            *(min(cell_len(word), _UNBROKEN) for text in texts for word in text.split(" ")),
            1,
        )
        for head, *texts in columns
    ]
    room = most - _GAP * (len(columns) - 1)
    if sum(map(min, widths, least)) > room:
        return None
    unbroken = [max(low, *map(cell_len, texts), 0) for low, (_, *texts) in zip(least, columns, strict=True)]
    for floor in (unbroken, least):
        while sum(widths) > room and (wider := [at for at, width in enumerate(widths) if width > floor[at]]):
            widths[max(wider, key=lambda at: (widths[at], at))] -= 1
    return widths


def _folded(name: str, width: int) -> str:
    """Break the name of a column behind `_` and at spaces where it is too wide."""
    lines = [""]
    for part in _PARTS.findall(name):
        if cell_len((lines[-1] + part).rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _sideways(heads: list[str], cells: list[list[str]], console: Console) -> None:
    """Write a row of a wide table as a block of lines: name and value; sentences go on below their begin, ids are left whole."""
    width = max(map(cell_len, heads))
    room = console.width - width - _GAP
    for place, row in enumerate(cells):
        if place:
            console.out("")
        for head, cell in zip(heads, row, strict=True):
            if cell:
                is_text = room >= _ROOM and all(cell_len(word) <= room for word in cell.split(" "))
                lines = [str(line).rstrip() for line in Text(cell).wrap(console, room)] if is_text else [cell]
                console.out(
                    head.ljust(width),
                    "\n".ljust(width + _GAP + 1).join(lines),
                    sep=" " * _GAP,
                    highlight=False,
                )
