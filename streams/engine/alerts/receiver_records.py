"""Who gets alerts, from the records of `controls`: addresses of owners and teams, and to whom a page goes on that nobody acknowledges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from schemas.refusal import shown
from streams.engine.alerts.alert import ADDRESS_KINDS, Address
from streams.engine.alerts.malformed import MalformedControlError, all_of, unknown_field

#: Kinds of records of which these are the fields.
KINDS: Final = ("owner", "team")
#: In the name of a receiver to whom somebody else's alert goes on.
ESCALATED: Final = " #for "
_FIELDS: Final = frozenset({*ADDRESS_KINDS, "escalate", "escalate_after_min", "by", "comment"})
_STEPS_AT_MOST: Final = 10
_AFTER_MIN: Final = 15
_AFTER_AT_MOST_MIN: Final = 24 * 60


class Escalation(NamedTuple):
    """A page that nobody has acknowledged goes to one of these owners after another, every `after_ms`."""

    owners: tuple[str, ...]
    after_ms: int


class ReceiverRecord(NamedTuple):
    """What a record sets of an owner or a team."""

    addresses: tuple[Address, ...] = ()
    escalation: Escalation | None = None


def receiver_record_of(value: Mapping[str, object]) -> tuple[ReceiverRecord, list[str]]:
    """The record, and a line for each part of it that has no effect."""
    faults = [
        unknown_field(given, _FIELDS)
        for given, said in value.items()
        if given not in _FIELDS and said is not None
    ]
    addresses: list[Address] = []
    for kind in ADDRESS_KINDS:
        url = value.get(kind)
        if isinstance(url, str) and url.strip():
            addresses.append(Address(kind, url.strip()))
        elif url is not None:
            # Not shown: the address of a webhook is a secret.
            faults.append(f"{kind}: expected a string that is not empty")
    try:
        escalation = _escalation(value)
    except MalformedControlError as fault:
        escalation = None
        faults += fault.details
    return ReceiverRecord(tuple(addresses), escalation), faults


def _escalation(value: Mapping[str, object]) -> Escalation | None:
    owners, after_min = value.get("escalate"), value.get("escalate_after_min")
    if owners is None:
        if after_min is not None:
            raise MalformedControlError(
                "escalate_after_min: it is that of `escalate`; name there who is next"
            )
        return None
    if not isinstance(owners, Sequence) or isinstance(owners, str) or not 1 <= len(owners) <= _STEPS_AT_MOST:
        raise MalformedControlError(
            f"escalate: got {shown(owners)}, expected a list of 1 to {_STEPS_AT_MOST} names of owner records"
        )
    return Escalation(*all_of(lambda: tuple(_names(owners)), lambda: _after_ms(after_min)))


def _names(owners: Sequence[object]) -> Iterator[str]:
    for place, owner in enumerate(owners):
        if not isinstance(owner, str) or not owner.strip():
            raise MalformedControlError(f"escalate: got {shown(owner)}, expected the name of an owner record")
        if owner in owners[:place]:
            raise MalformedControlError(f"escalate: {shown(owner)} is in it twice")
        yield owner.strip()


def _after_ms(given: object) -> int:
    if given is None:
        return _AFTER_MIN * MINUTE_MS
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= _AFTER_AT_MOST_MIN:
        raise MalformedControlError(
            f"escalate_after_min: got {shown(given)}, expected whole minutes from 1 to {_AFTER_AT_MOST_MIN}"
        )
    return given * MINUTE_MS
