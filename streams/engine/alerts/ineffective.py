"""Says which part of a record of `controls` has no effect, and why: the same for who writes it and who reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from schemas.events import ControlEvent, Event
from schemas.invalid import Invalid
from streams.engine.alerts.controls import Controls

#: A refusal begins with the field, of the wire in a form of its own.
_FIELD: Final = re.compile(r"(?:field `([^`]*)`|([^\s:]+)): (.*)", re.DOTALL)


def faults_of(event: Event | Invalid) -> list[str]:
    """A line for each part of a record that has no effect."""
    if isinstance(event, Invalid):
        return [event.detail]
    if not isinstance(event, ControlEvent):
        return []
    return [f"{kind}/{name}: {detail}" for kind, name, detail in Controls.from_events([event]).faults]


def details_of(event: Event | Invalid) -> Iterable[str]:
    """Yield what is wrong with each part of a record that has no effect, without its kind and name."""
    if isinstance(event, Invalid):
        yield event.detail
    elif isinstance(event, ControlEvent):
        yield from (fault.detail for fault in Controls.from_events([event]).faults)


def field_and_reason(detail: str) -> tuple[str, str]:
    """Return the field that a refusal is about, and the rest of it; the field is '' where it is about the whole record."""
    found = _FIELD.match(detail)
    return (found[1] or found[2], found[3]) if found else ("", detail)
