"""Shows a refused record with the field at fault marked."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import orjson

from schemas.escaping import visible

_FIELD: Final = re.compile(r"field `([^`]+)`")
_STEPS: Final = re.compile(r"[^.\[\]]+")


def field_of(detail: str) -> str | None:
    """The field that a refusal's detail names."""
    found = _FIELD.match(detail)
    return None if found is None else found[1]


def pretty(raw: bytes, field: str | None) -> str:
    """The record, indented if it is JSON, with an arrow at the field at fault."""
    try:
        value = msgspec.json.decode(raw)
        lines = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()
    except (msgspec.MsgspecError, orjson.JSONEncodeError, ValueError, RecursionError):
        return visible(raw.decode("utf-8", "backslashreplace"), lines=True)
    at = None if field is None else _line_of(lines, field)
    marked = [f"{line}   <-- {field}" if number == at else line for number, line in enumerate(lines)]
    return visible("\n".join(marked), lines=True)


def _line_of(lines: list[str], field: str) -> int | None:
    """The line of the field: each step of its path is one level deeper, after the step before."""
    found, begin = None, 0
    for depth, step in enumerate(_STEPS.findall(field), 1):
        key = f"{'  ' * depth}{orjson.dumps(step).decode()}: "
        hit = next((n for n in range(begin, len(lines)) if lines[n].startswith(key)), None)
        if hit is None:
            return found
        found, begin = hit, hit + 1
    return found
