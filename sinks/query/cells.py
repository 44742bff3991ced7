"""What both typed forms of an answer share: which ClickHouse types a cell has a value of its own for; all others are sent as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final
from uuid import UUID

import orjson

from sinks.query.values import plain

#: What the header `Accept` names for an Arrow stream.
ARROW_TYPE: Final = "application/vnd.apache.arrow.stream"
#: Integers that no form has: they are sent as digits.
WIDE: Final = frozenset({"Int128", "Int256", "UInt128", "UInt256"})
DECIMAL: Final = re.compile(r"^Decimal\((\d+), (\d+)\)$")
_WRAPPED: Final = re.compile(r"^(?:Nullable|LowCardinality)\((.*)\)$", re.DOTALL)
_ZONE: Final = re.compile(r"'([^']+)'")

Converter = Callable[[Any], object]


def bare(kind: str) -> str:
    """A ClickHouse type without Nullable and LowCardinality."""
    while wrapped := _WRAPPED.match(kind):
        kind = wrapped.group(1)
    return kind


def zone_of(kind: str) -> str:
    """The time zone of a type of instants."""
    named = _ZONE.search(kind)
    return named.group(1) if named else "UTC"


def converted(values: Sequence[Any], convert: Converter | None) -> Sequence[object]:
    """The values of a column, all but NULL converted."""
    return values if convert is None else [None if each is None else convert(each) for each in values]


def to_text(value: object) -> str:
    """A nested value as JSON, with instants in ISO 8601 and money as strings, as the commands print them."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
    return orjson.dumps(value, default=plain, option=options).decode()


def from_text(kind: str) -> Converter:
    """What makes a value of a type of its JSON: nested types are those of JSON, except tuples."""
    return _FROM_JSON.get(bare(kind), _tuple if kind.startswith("Tuple(") else orjson.loads)


_FROM_JSON: Final[dict[str, Callable[[str], object]]] = {
    "UUID": lambda text: UUID(orjson.loads(text)),
    "IPv4": lambda text: IPv4Address(orjson.loads(text)),
    "IPv6": lambda text: IPv6Address(orjson.loads(text)),
}


def _tuple(text: str) -> object:
    value = orjson.loads(text)
    return tuple(value) if isinstance(value, list) else value
