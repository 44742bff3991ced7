"""Types that a statement may name in a string, as in CAST(x, 'Decimal(9, 2)').

It must not allow a type that contains a function, such as AggregateFunction: its values are deserialised by that
function's own code, whatever the list of functions allows.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<value>-?\d+|'[^'\\\\]*')|(?P<mark>[(),=]))"
)
_BITS: Final = (8, 16, 32, 64, 128, 256)
_PLAIN: Final = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in _BITS}
    | {
        "Float32",
        "Float64",
        "BFloat16",
        "String",
        "Bool",
        "Date",
        "Date32",
        "UUID",
        "IPv4",
        "IPv6",
        "DateTime",
        "Nothing",
    }
)
#: Types whose arguments are values: Decimal(9, 2), DateTime64(3, 'UTC'), Enum8('a' = 1).
_OF_VALUES: Final = frozenset(
    {
        "Decimal",
        "Decimal32",
        "Decimal64",
        "Decimal128",
        "Decimal256",
        "DateTime",
        "DateTime64",
        "FixedString",
        "Enum8",
        "Enum16",
    }
)
_OF_TYPES: Final = frozenset({"Array", "Nullable", "LowCardinality", "Map"})
_NAMED: Final = frozenset({"Tuple"})  # whose element types may have names
_TOKENS_MAX: Final = 2_000
_DEPTH_MAX: Final = 30


def is_allowed(text: str) -> bool:
    """Whether the text is one type that a statement may name."""
    tokens = _tokens(text)
    return tokens is not None and _after_type(tokens, 0, 0) == len(tokens)


def _tokens(text: str) -> list[tuple[str, str]] | None:
    found: list[tuple[str, str]] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or len(found) >= _TOKENS_MAX:
            return None
        found.append((str(match.lastgroup), match.group().strip()))
        at = match.end()
    return found


def _after_type(tokens: list[tuple[str, str]], at: int, depth: int) -> int:
    """The position after the type that begins at `at`; -1 if there is none."""
    if depth > _DEPTH_MAX or at >= len(tokens) or tokens[at][0] != "word":
        return -1
    name = tokens[at][1]
    has_arguments = tokens[at + 1 : at + 2] == [("mark", "(")]
    if not has_arguments:
        return at + 1 if name in _PLAIN or name == "Decimal" else -1
    if name in _OF_VALUES:
        return _after_values(tokens, at + 2)
    if name in _OF_TYPES or name in _NAMED:
        return _after_types(tokens, at + 2, depth, named=name in _NAMED)
    return -1


def _after_values(tokens: list[tuple[str, str]], at: int) -> int:
    while at < len(tokens) and tokens[at] != ("mark", ")"):
        if tokens[at][0] != "value" and tokens[at] not in (("mark", ","), ("mark", "=")):
            return -1
        at += 1
    return at + 1 if at < len(tokens) else -1


def _after_types(tokens: list[tuple[str, str]], at: int, depth: int, *, named: bool) -> int:
    while at < len(tokens):
        if named and [kind for kind, _ in tokens[at : at + 2]] == ["word", "word"]:
            at += 1
        at = _after_type(tokens, at, depth + 1)
        if at < 0 or at >= len(tokens):
            return -1
        if tokens[at] == ("mark", ")"):
            return at + 1
        if tokens[at] != ("mark", ","):
            return -1
        at += 1
    return -1
