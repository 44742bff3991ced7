"""Leaves out collected events whose names the meter would refuse: a source's users choose them, and never see a dead letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schemas.escaping import visible
from schemas.reasons import Reason
from schemas.reserved import reserved_in
from streams.collect.collector import CollectedEvent, EventBatch

_SHOWN_CHARS: Final = 80


class RefusedName(NamedTuple):
    """Why a name is refused, and which one: a job has many events, so that it is a name that stands for an entry."""

    reason: str
    said: str


def with_allowed_names(batch: EventBatch, refused: dict[RefusedName, None]) -> EventBatch:
    """The batch without events that have a reserved name or a NUL byte in one; these names are added to `refused`."""
    faults = [_fault_of(event) for event in batch.events]
    found = [fault for fault in faults if fault is not None]
    if not found:
        return batch
    refused.update(dict.fromkeys(found))
    return batch._replace(
        events=[event for event, fault in zip(batch.events, faults, strict=True) if fault is None]
    )


def _fault_of(event: CollectedEvent) -> RefusedName | None:
    found = reserved_in(event.value)
    if found is not None:
        name = visible(found.value[:_SHOWN_CHARS])
        return RefusedName(
            Reason.reserved_name, f"field `{found.field}`: got {name}, expected {found.expected}"
        )
    field = next((field for field, value in event.value.items() if _has_nul(value)), None)
    return (
        None if field is None else RefusedName(Reason.nul_byte, f"field `{visible(field)}`: a NUL byte in it")
    )


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(name) or _has_nul(each) for name, each in value.items())
    return isinstance(value, (list, tuple)) and any(_has_nul(each) for each in value)
