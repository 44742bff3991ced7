"""Lets a user's SQL through only if it does no more than read the tables of this store.

It must not be the only guard: the statement also runs in ClickHouse's read-only mode. That mode alone still
allows `file()`, `url()`, `remote()` and INTO OUTFILE, which reach beyond the store; those are refused here.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from sinks.errors import QueryRefused

FIRST_WORDS: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "FROM")
# Table functions that make rows of nothing, or of this store only. All others are refused.
HARMLESS: Final = frozenset(
    {
        "dictionary",
        "format",
        "generate_series",
        "generaterandom",
        "generateseries",
        "null",
        "numbers",
        "numbers_mt",
        "primes",
        "values",
        "view",
        "zeros",
        "zeros_mt",
    }
)
# Ordinary functions that read files, or run other programs.
_OUTWARD: Final = frozenset({"file", "catboostevaluate"})
_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|\#[!\ ][^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<quoted>"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\d\w*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)

_QUOTES: Final = frozenset("'\"`")


class _Token(NamedTuple):
    kind: str
    text: str


def check(sql: str, table_functions: Collection[str]) -> str:
    """The one statement in `sql`, without a closing semicolon; raises QueryRefused if it may do more than read.

    `table_functions` are the names that the server knows.
    """
    tokens = list(_tokens(sql))
    while tokens and tokens[-1].text == ";":
        tokens.pop()
        sql = sql[: sql.rindex(";")]
    first = next((t.text.upper() for t in tokens if t.text != "("), "")
    if first not in FIRST_WORDS:
        raise QueryRefused(f"only reading is allowed: a query begins with one of {', '.join(FIRST_WORDS)}")
    if any(t.kind == "mark" and t.text == ";" for t in tokens):
        raise QueryRefused("one statement at a time: there is a `;` inside the query")
    outward = {name.lower() for name in table_functions} - HARMLESS | _OUTWARD
    for token in tokens:
        _check_letters(token)
    for token, following in zip(tokens, [*tokens[1:], _Token("mark", "")], strict=True):
        _check_pair(token, following, outward)
    return sql


def _check_letters(token: _Token) -> None:
    # ClickHouse takes typographic quotes for quotes, and reads \xNN in quoted names: both could hide a name from us.
    if token.kind != "text" and token.kind != "name" and not token.text.isascii():
        raise QueryRefused(f"the character {token.text!r} is allowed inside quoted text only")
    if token.kind == "name" and "\\" in token.text:
        raise QueryRefused("a quoted name must not hold a backslash")


def _check_pair(token: _Token, following: _Token, outward: Collection[str]) -> None:
    name = token.text.lower()
    if token.kind in ("name", "word") and following.text == "(" and name in outward:
        raise QueryRefused(f"the function `{token.text}` reaches beyond this store and is not allowed")
    if token.kind in ("name", "word") and following.text == "." and name == "default":
        # In the embedded engine this database is also the file system.
        raise QueryRefused("the database `default` is not part of this store")
    if token.kind == "word" and name in ("into", "from") and following.text.lower() in ("outfile", "infile"):
        raise QueryRefused("reading and writing files is not allowed")
    if token.kind == "word" and name == "format" and following.kind == "word":
        raise QueryRefused("leave FORMAT out of the query; the output format is chosen with --format")


def _tokens(sql: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "mark"
        text = match.group()
        if match.group("text") is not None:
            yield _Token("text", text)
        elif kind == "quoted":
            yield _Token("name", text[1:-1])
        elif text in _QUOTES:
            # Not only wrong: each such mark would be looked at to the end of the query, which takes the square of it.
            raise QueryRefused(f"the quote {text} at character {match.start() + 1} is not closed")
        elif kind != "blank":
            yield _Token(kind, text)
