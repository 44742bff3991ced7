r"""Markdown of names and texts of strangers: none can be markup, a link, a mention, HTML or the end of a cell, wherever it is shown.

A name is a code span, in which renderers interpret nothing; what could end the span or the cell is shown as `\x60` and `\x7c`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from schemas.escaping import visible
from streams.cli.output import Usd, even

#: What is shown of one name or text.
SHOWN_MAX: Final = 300
_ENDS: Final = {"`": r"\x60", "|": r"\x7c"}
# Renderers make links of bare addresses, mentions of `@name`, references of `#1`, and elements or entities of these.
_ALIVE: Final = re.compile(r"[@#`<>&|\\]|://|www\.|!\[|\]\(", re.IGNORECASE)
# An underscore between letters or digits is none.
_MARKUP: Final = re.compile(r"([*~$\[\]]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_FENCE: Final = re.compile(r"`+")


def code(name: str) -> str:
    """A name as a code span; '' of none."""
    shown = "".join(_ENDS.get(each, each) for each in _clipped(name))
    # A span of blanks alone is none.
    return f"`{shown}`" if shown.strip(" ") else f"`{shown!r}`" if shown else ""


def prose(text: str) -> str:
    """A sentence: as it reads, or as a code span where something in it could be more than text."""
    shown = _clipped(text)
    return code(text) if _ALIVE.search(shown) else _MARKUP.sub(r"\\\1", shown)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; dollars are right-aligned, of one number of decimals in each column."""
    shown = even(columns, rows)
    rule = ["---:" if any(isinstance(row[at], Usd) for row in shown) else "---" for at in range(len(columns))]
    lines = [columns, rule, *shown]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def block(text: str, language: str = "") -> str:
    """A code block, whatever is in it."""
    longest = max((len(found) for found in _FENCE.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join(visible(line) for line in text.split("\n"))
    return f"{fence}{language}\n{lines}\n{fence}\n"


def _clipped(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}..."
