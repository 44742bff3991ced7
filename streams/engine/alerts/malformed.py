"""What a control's field is when it is invalid: the whole control then has no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from schemas.redaction import WITHHELD, field_name


class MalformedControlError(ValueError):
    """A field of a control is invalid; the message begins with the field, and shows no value that may be an address."""


def nearest(given: object, known: Iterable[str]) -> str:
    """A question for the known name that is meant, to end a message with; '' if none is near."""
    found = get_close_matches(given, list(known), 1) if isinstance(given, str) else []
    return f"; did you mean {found[0]}?" if found else ""


def unknown_field(given: str, known: Collection[str]) -> str:
    """What is wrong with a field that no such control has."""
    shown = field_name(given)
    near = "" if shown == WITHHELD else nearest(given, sorted(known))
    return f"{shown}: no such field, expected one of {', '.join(sorted(known))}{near}"


def check_fields(value: Mapping[str, object], known: Collection[str]) -> None:
    """Check that a control has these fields alone; a null is no field.

    Raises:
        MalformedControlError: It has another one.
    """
    for given, said in value.items():
        if given not in known and said is not None:
            raise MalformedControlError(unknown_field(given, known))
