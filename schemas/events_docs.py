"""Writes the pages of events from the wire structs, so that they always agree with the decoder.

Text about whole topics is in `schemas.events_text`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final, get_args, get_type_hints

import msgspec

from schemas.decode import WIRES
from schemas.event_pages import TOPICS_OF
from schemas.events_text import (
    ENVELOPE,
    FREE_FIELDS,
    HEAD,
    LEFT_OUT,
    PAGE_HEADS,
    REASONS,
    RECORDS,
    TAIL,
    TOPICS,
)
from schemas.reasons import Reason
from schemas.refusal import descriptions
from schemas.validate_prices import ALLOWED_PER
from schemas.wire import BudgetWire, PricedWire, Wire
from schemas.wire_types import Doc

#: Documented with the envelope.
_ENVELOPE_ONLY: Final = frozenset({"specversion"})
_NUMBERS: Final = frozenset({int, float})
_TABLE: Final = (
    "| field | required | type and limits | unit | meaning | example |\n|---|---|---|---|---|---|\n"
)


def render() -> dict[str, str]:
    """Each page by its name."""
    parts = [HEAD, RECORDS]
    parts += ["\n### Common fields\n\n", _table(Wire)]
    parts += ["\n### Price fields\n\n", "Of `jobs`, `gpu`, `nodes` and `prices`.\n\n", _table(PricedWire)]
    parts += [ENVELOPE, TAIL, "\n| reason | means |\n|---|---|\n"]
    parts += [f"| `{reason}` | {REASONS[reason]} |\n" for reason in Reason]
    fields = {page: PAGE_HEADS[page] + "".join(map(_fields, topics)) for page, topics in TOPICS_OF.items()}
    return {"events.md": "".join(parts), **fields}


def _fields(topic: str) -> str:
    wire = WIRES[topic]
    parts = [f"\n## {topic}\n\n", TOPICS[topic].strip(), "\n\n", _table(wire)]
    if topic == "jobs":
        parts += ["\nThe fields of `budget`:\n\n", _table(BudgetWire)]
    if topic == "prices":
        parts += ["\n", _allowed_per()]
    parts += ["\n```json\n", json.dumps(example(topic), ensure_ascii=False), "\n```\n"]
    return "".join(parts)


def example(topic: str) -> dict[str, Any]:
    """A complete record of a topic, built from the examples of its fields."""
    wire = WIRES[topic]
    names = [name for name in wire.__struct_fields__ if name not in LEFT_OUT[topic] | _ENVELOPE_ONLY]
    docs = documented(wire)
    return {name: docs[name].example for name in names} | FREE_FIELDS.get(topic, {})


def documented(struct: type[msgspec.Struct]) -> dict[str, Doc]:
    """The documentation of each field of a struct, including inherited ones.

    Raises:
        LookupError: A field has no Doc, or a number has no unit.
    """
    found: dict[str, Doc] = {}
    for name, hint in get_type_hints(struct, include_extras=True).items():
        if name in _ENVELOPE_ONLY:
            continue
        docs = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Doc)]
        if not docs:
            raise LookupError(f"{struct.__name__}.{name} has no Doc: say beside the field what it means")
        if not docs[-1].unit and not _NUMBERS.isdisjoint(_plain_types(hint)):
            raise LookupError(f"{struct.__name__}.{name} is a number: its Doc must name the unit")
        found[name] = docs[-1]
    return found


def _plain_types(hint: Any) -> Iterator[Any]:
    """Yield every type that occurs in a type hint."""
    if isinstance(hint, type):
        yield hint
    for inner in get_args(hint):
        yield from _plain_types(inner)


def _table(struct: type[msgspec.Struct]) -> str:
    """The rows of a struct's own fields; those of its base structs have tables of their own."""
    docs, expected = documented(struct), descriptions(struct)
    own = [
        field
        for field in msgspec.structs.fields(struct)
        if field.name in struct.__annotations__ and field.name not in _ENVELOPE_ONLY
    ]
    rows = [
        f"| `{field.name}` | {'yes' if field.required else 'no'} | {expected[field.name]} | {docs[field.name].unit} "
        f"| {docs[field.name].meaning} | `{json.dumps(docs[field.name].example)}` |\n"
        for field in own
    ]
    return _TABLE + "".join(rows)


def _allowed_per() -> str:
    rows = [
        f"| `{component}` | {', '.join(f'`{per}`' for per in allowed)} |\n"
        for component, allowed in ALLOWED_PER.items()
    ]
    return "| `component` | `per` may be |\n|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(render()[sys.argv[1]])
