"""Converts statements to syntax trees and back, by ClickHouse's own parser: what is checked is what runs.

The engine's functions `parseQueryToJSON` and `formatQueryFromJSON` do the work; the text is passed as a bound
parameter.
"""

import json
from typing import Any, Final, Protocol

from sinks.query.limits import TEXT_MAX_BYTES
from sinks.query.refusal import FailedQueryError, RefusedQueryError

Node = dict[str, Any]

_PARSE: Final = "SELECT parseQueryToJSON({q:String})"
_FORMAT: Final = "SELECT formatQueryFromJSON({q:String})"
_MESSAGE_MAX: Final = 1_000
#: The parser's errors for statements without a tree, and for more than one statement.
_NO_TREE: Final = ("does not support JSON serialization", "not supported by parseQueryToJSON")
_MORE_THAN_ONE: Final = "Multi-statements are not allowed"


class Engine(Protocol):
    """An embedded engine, queried for one text."""

    def text(self, sql: str, value: str) -> str:
        """The single cell of a query whose parameter `q` has the value.

        Raises:
            FailedQueryError: The query failed.
        """
        ...


def check_text(sql: str) -> None:
    """Check the size and characters of a query before it is parsed.

    Raises:
        RefusedQueryError: It is too long, or has a NUL character.
    """
    size = len(sql.encode("utf-8", "surrogatepass"))
    if size > TEXT_MAX_BYTES:
        raise RefusedQueryError(f"the query has {size} bytes; at most {TEXT_MAX_BYTES} are allowed")
    if "\0" in sql:
        raise RefusedQueryError("the query has a NUL character")


def parse(engine: Engine, sql: str) -> Node:
    """The tree of the single statement in the text.

    Raises:
        FailedQueryError: The parser's error.
        RefusedQueryError: The statement has no tree, or there is more than one.
    """
    try:
        found = json.loads(engine.text(_PARSE, sql))
    except FailedQueryError as fault:
        if any(words in str(fault) for words in _NO_TREE):
            raise RefusedQueryError(
                "only reading is allowed, and this statement is not one that reads tables"
            ) from fault
        if _MORE_THAN_ONE in str(fault):
            raise RefusedQueryError("one statement at a time: there is a `;` inside the query") from fault
        raise FailedQueryError(_without_scope(str(fault))) from fault
    if not isinstance(found, dict):
        raise RefusedQueryError("the statement has no syntax tree")
    return found


def text_of(engine: Engine, tree: Node) -> str:
    """The statement of a tree, formatted by ClickHouse: no comments, one line.

    Raises:
        FailedQueryError: The tree cannot be formatted.
    """
    try:
        return engine.text(_FORMAT, json.dumps(tree))
    except FailedQueryError as fault:
        raise FailedQueryError(_without_scope(str(fault))) from fault


def _without_scope(message: str) -> str:
    """Shorten the parser's message, without the part about the query that called it."""
    head, separator, tail = message.rpartition(": In scope SELECT ")
    code = tail.rpartition(" (")[2] if tail.endswith(")") else ""
    text = head if separator else message.removesuffix(f" ({code}")
    if len(text) > _MESSAGE_MAX:
        text = f"{text[:_MESSAGE_MAX]}..."
    return f"{text} ({code}" if code else text
