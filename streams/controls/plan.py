"""Compares the controls of a folder with those in force: what is added, changed, removed, and what would change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from schemas.events import ControlEvent
from schemas.redaction import WITHHELD
from schemas.refusal import nearest, shown
from schemas.validate_deeds import DEED
from schemas.validate_requests import REQUEST
from schemas.validate_sources import SOURCE as OF_SOURCES
from schemas.validate_tokens import TOKEN
from streams.controls.file import FileRecord
from streams.engine.alerts.alert import ADDRESS_KINDS
from streams.engine.alerts.beside_others import fault_beside, has_ended
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.receiver_records import KINDS as RECEIVER_KINDS
from streams.engine.alerts.receiver_records import receiver_record_of
from streams.engine.rules.formatting import instant

#: The `source` of what is published from a folder: only these records are ever removed.
APPLIED: Final = "trainfare/apply"
Action: TypeAlias = Literal["add", "change", "remove", "keep"]
_SECRET: Final = frozenset(ADDRESS_KINDS)
_INSTANTS: Final = ("from_ms", "until_ms")
_UNSET: Final = "(not set)"
#: Whom controls are about by a field of the same name, and how alike two names are of which one is likely mistyped (0 to 1).
_PEOPLE: Final = ("owner", "team")
_NEARLY_RATIO: Final = 0.8


class FieldChange(NamedTuple):
    """One field of a control before and after, as people read it; addresses are withheld."""

    field: str
    before: str
    after: str


@dataclass(frozen=True)
class ControlChange:
    """What becomes of one control; `keep`: it is in no file, and stays in force."""

    action: Action
    kind: str
    name: str
    key: bytes
    record: FileRecord | None
    before: ControlEvent | None
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True)
class ApplyPlan:
    """What is to be done so that the folder is in force."""

    changes: tuple[ControlChange, ...]
    unchanged: tuple[FileRecord, ...]
    others: int  # in force, in no file, and published by somebody else
    faults: tuple[str, ...]  # of what would change nothing
    notes: tuple[str, ...]

    def count(self, action: Action) -> int:
        """How many controls are added, changed, removed or kept."""
        return sum(change.action == action for change in self.changes)

    @property
    def to_publish(self) -> list[ControlChange]:
        """What is to be published, removals last: what takes their place is in force before."""
        done = [change for change in self.changes if change.action != "keep"]
        return sorted(done, key=lambda change: change.action == "remove")


def source_of(set_name: str) -> str:
    """The `source` of the records of one set of controls."""
    return f"{APPLIED}/{set_name}" if set_name else APPLIED


def plan_of(
    records: Iterable[FileRecord],
    in_force: Mapping[bytes, ControlEvent],
    source: str,
    now_ms: int,
    *,
    prune: bool,
) -> ApplyPlan:
    """What is to be done.

    Args:
        records: The folder's, each of a key of its own.
        in_force: The last record of each key of the topic.
        source: Of the folder's records; one in force that has it and is in no file is removed with `prune`.
        now_ms: Ms since 1970.
        prune: Whether that is asked for.
    """
    apart = (OF_SOURCES, TOKEN, REQUEST, DEED)
    people = {key: event for key, event in in_force.items() if event.kind not in apart}
    asked = {record.key: record for record in records}
    gone = [key for key, event in people.items() if key not in asked and event.source == source]
    after = {key: event for key, event in people.items() if not (prune and key in gone)}
    after |= {key: record.event for key, record in asked.items()}
    changes: list[ControlChange] = []
    unchanged: list[FileRecord] = []
    faults: list[str] = []
    notes: list[str] = []
    for key, record in asked.items():
        event, before = record.event, people.get(key)
        fields = tuple(_differences(before, event))
        if before is not None and not fields:
            unchanged.append(record)
            if has_ended(event, now_ms):
                notes.append(
                    record.fault("until_ms: it has ended, and changes nothing any more; take it out")
                )
            continue
        others = (each for other, each in after.items() if other != key)
        fault = fault_beside(event, before, others, now_ms)
        if fault is not None:
            faults.append(record.fault(fault))
        action: Action = "add" if before is None else "change"
        changes.append(ControlChange(action, event.kind, event.name, key, record, before, fields))
    notes += _without_address(asked.values(), after.values())
    notes += _near_others(asked.values(), after.values())
    for key in gone:
        before = people[key]
        changes.append(
            ControlChange("remove" if prune else "keep", before.kind, before.name, key, None, before)
        )
    others_left = len(people.keys() - asked.keys()) - len(gone)
    return ApplyPlan(tuple(changes), tuple(unchanged), others_left, tuple(faults), tuple(notes))


def _without_address(records: Iterable[FileRecord], after: Collection[ControlEvent]) -> Iterator[str]:
    """Yield a line for each budget whose contact, or page whose next one, is no owner with an address."""
    named = [
        record
        for record in records
        if record.event.value.get("contact" if record.event.kind == "budget" else "escalate")
    ]
    if not named:
        return
    controls = Controls.from_events(event for event in after if event.kind == "owner")
    owners = sorted(event.name for event in after if event.kind == "owner")
    for record in named:
        if record.event.kind in RECEIVER_KINDS:
            found, _ = receiver_record_of(record.event.value)
            for owner in () if found.escalation is None else found.escalation.owners:
                if not controls.address_of(owner):
                    yield record.fault(
                        f"escalate: no owner {shown(owner)} has an address, pages pass them over{nearest(owner, owners)}"
                    )
            continue
        contact = str(record.event.value["contact"]).strip()
        if not controls.address_of(contact):
            yield record.fault(
                f"contact: no owner {shown(contact)} has an address, its alerts go to alerts.default_webhook"
                f"{nearest(contact, owners)}"
            )


def _near_others(records: Iterable[FileRecord], after: Collection[ControlEvent]) -> Iterator[str]:
    """Yield a line for each control of an owner or a team that no record is about, but of one that is nearly named so."""
    names = {kind: sorted(event.name for event in after if event.kind == kind) for kind in _PEOPLE}
    for record in records:
        value = record.event.value
        match = value.get("match")
        for kind in _PEOPLE:
            given = match.get(kind) if isinstance(match, Mapping) else None
            given = value.get(kind, given)
            if not isinstance(given, str) or given in names[kind]:
                continue
            if near := nearest(given, names[kind], _NEARLY_RATIO):
                yield record.fault(f"{kind}: no {kind} {shown(given)} is among the controls{near}")


def _differences(before: ControlEvent | None, after: ControlEvent) -> Iterator[FieldChange]:
    old = {} if before is None else dict(_flat(before.value))
    new = dict(_flat(after.value))
    for field in {**old, **new}:
        if _text(old.get(field)) != _text(new.get(field)):
            yield FieldChange(field, *_shown(field, old, new))
    if before is not None and before.source != after.source:
        yield FieldChange("source", shown(before.source), shown(after.source))


def _flat(value: Mapping[str, object], within: str = "") -> Iterator[tuple[str, object]]:
    """Yield each field, those of objects as `thresholds.long_ratio`; a null is no field."""
    for field, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{within}{field}.")
        elif item is not None:
            yield f"{within}{field}", item


def _text(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _shown(field: str, old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, str]:
    both = field in old and field in new
    if field in _SECRET or any("://" in str(values.get(field)) for values in (old, new)):
        # Also of a record whose field is misspelt.
        return (
            WITHHELD if field in old else _UNSET,
            (f"{WITHHELD} (another)" if both else WITHHELD) if field in new else _UNSET,
        )
    return _value(field, old), _value(field, new)


def _value(field: str, values: Mapping[str, object]) -> str:
    if field not in values:
        return _UNSET
    value = values[field]
    if field in _INSTANTS and isinstance(value, int):
        return f"{value} ({instant(value)})"
    return shown(value)
