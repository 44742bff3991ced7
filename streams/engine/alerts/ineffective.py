"""Says which part of a record of `controls` has no effect, and why: the same for who writes it and who reads it."""

from __future__ import annotations

from schemas.decode import decode
from schemas.durations import NEVER_MS
from schemas.events import ControlEvent, Event
from schemas.invalid import Invalid
from schemas.redaction import CONTROLS
from streams.engine.alerts.controls import Controls


def control_faults(value: bytes | None) -> list[str]:
    """Return a line for each part of a record that has no effect; `value`: its JSON, None of one that removes a control."""
    return faults_of(decode(CONTROLS, value, (), NEVER_MS))


def faults_of(event: Event | Invalid) -> list[str]:
    """Return a line for each part of a record that has no effect."""
    if isinstance(event, Invalid):
        return [event.detail]
    if not isinstance(event, ControlEvent):
        return []
    return [f"{kind}/{name}: {detail}" for kind, name, detail in Controls.from_events([event]).faults]
