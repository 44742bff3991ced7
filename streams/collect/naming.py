"""Leaves out collected events whose names the meter would refuse: a source's users choose them, and never see a dead letter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from schemas.escaping import visible
from schemas.reasons import Reason
from schemas.reserved import reserved_in
from streams.collect.collector import CollectedEvent, EventBatch

_SHOWN_CHARS: Final = 80


def with_allowed_names(batch: EventBatch) -> EventBatch:
    """Return the batch without events that have a reserved name or a NUL byte in one; these are reported as skipped."""
    faults = [_fault_of(event) for event in batch.events]
    refused = Counter(reason for reason, _ in filter(None, faults))
    if not refused:
        return batch
    events = [event for event, fault in zip(batch.events, faults, strict=True) if fault is None]
    examples = dict.fromkeys(text for _, text in filter(None, faults))
    # Events are counted, names are listed: a job has many events.
    known: Mapping[str, int] = batch.reasons or ({"unreadable": len(batch.skipped)} if batch.skipped else {})
    return batch._replace(
        events=events, skipped=[*batch.skipped, *examples], reasons=dict(Counter(known) + refused)
    )


def _fault_of(event: CollectedEvent) -> tuple[str, str] | None:
    found = reserved_in(event.value)
    if found is not None:
        name = visible(found.value[:_SHOWN_CHARS])
        return Reason.reserved_name, f"field `{found.field}`: got {name}, expected {found.expected}"
    field = next((field for field, value in event.value.items() if _has_nul(value)), None)
    return None if field is None else (Reason.nul_byte, f"field `{visible(field)}`: a NUL byte in it")


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(name) or _has_nul(each) for name, each in value.items())
    return isinstance(value, (list, tuple)) and any(_has_nul(each) for each in value)
