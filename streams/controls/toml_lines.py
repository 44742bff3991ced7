"""Finds the line of each table and key of a TOML text; parsers of TOML say what a text holds, and not where.

It reads texts that a parser has accepted, so it knows strings, comments and brackets, and no types.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

#: What ends a value, opens or closes a bracket, or may hold characters that only look like it.
_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}\n]',
    re.DOTALL,
)
#: Of a dotted key, so many parts are noted; no control has as many.
_DEPTH_AT_MOST: Final = 8
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_KEY_PART: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|[A-Za-z0-9_-]+')


class LocatedTable(NamedTuple):
    """One element of an array of tables: the line of its `[[name]]`, and those of its keys, as `match.team`."""

    name: str
    line: int
    fields: dict[str, int]

    def line_of(self, field: str) -> int:
        """The line of a field, or of what it is in; that of the table where it is in none."""
        while field and field not in self.fields:
            field = field.rpartition(".")[0]
        return self.fields.get(field, self.line)


class LocatedText(NamedTuple):
    """The elements of each array of tables in their order, and the lines of all else at the top of a text."""

    tables: dict[str, list[LocatedTable]]
    others: dict[str, int]

    def of(self, name: str, place: int) -> LocatedTable:
        """The element of an array of tables; one that is written inline has the line of its array."""
        named = self.tables.get(name, [])
        return named[place] if place < len(named) else LocatedTable(name, self.others.get(name, 1), {})


def located(text: str) -> LocatedText:
    """Where everything is in a text that is valid TOML."""
    tables: dict[str, list[LocatedTable]] = {}
    others: dict[str, int] = {}
    inside: LocatedTable | None = None
    before: tuple[str, ...] = ()  # of the keys that follow, in the table `inside` or at the top
    for is_header, is_array, key, line in _statements(text):
        name, rest = key[0], key[1:]
        if is_header and is_array and not rest:
            inside, before = LocatedTable(name, line, {}), ()
            tables.setdefault(name, []).append(inside)
        elif is_header:
            # A table inside the last one of that name, or one at the top.
            inside = tables[name][-1] if name in tables else None
            before = rest if inside is not None else key
            _note(inside.fields if inside is not None else others, before, line)
        else:
            _note(inside.fields if inside is not None else others, (*before, *key), line)
    return LocatedText(tables, others)


def _note(lines: dict[str, int], path: tuple[str, ...], line: int) -> None:
    for size in range(1, min(len(path), _DEPTH_AT_MOST) + 1):
        lines.setdefault(".".join(path[:size]), line)


def _statements(text: str) -> Iterator[tuple[bool, bool, tuple[str, ...], int]]:
    """Yield each header and each key with its line: whether it is a header, and of an array; its path."""
    breaks = [found.start() for found in re.finditer("\n", text)]
    at = _after(_BLANK, text, 0)
    while at < len(text):
        line = bisect_right(breaks, at) + 1
        is_header, is_array = text[at] == "[", text.startswith("[[", at)
        path, end = _path(text, at + is_header + is_array)
        if not path:
            return  # no TOML: a parser would have refused it
        yield is_header, is_array, path, line
        at = _after(_BLANK, text, _end_of_line(text, end) if is_header else _end_of_value(text, end))


def _path(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The parts of a dotted key, and where it ends."""
    parts: list[str] = []
    while found := _KEY_PART.match(text, _after(_SPACE, text, at)):
        parts.append(_plain(found[0]))
        at = _after(_SPACE, text, found.end())
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(parts), at


def _plain(part: str) -> str:
    return next(iter(tomllib.loads(f"{part} = 0"))) if part[0] in "\"'" else part


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    for found in _TOKEN.finditer(text, at):
        said = found[0]
        if said == "\n" and depth == 0:
            return found.start()
        depth += (said in "[{") - (said in "]}")
    return len(text)


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
