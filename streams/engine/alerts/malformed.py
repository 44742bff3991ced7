"""What a control's field is when it is invalid: the whole control then has no effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar, overload

from schemas.redaction import WITHHELD, field_name
from schemas.refusal import nearest

_IN_DOLLARS: Final = "controls are in US dollars: convert the amount, and write usd (docs/currencies.md)"
#: What people write for the currency of an amount.
_CURRENCY: Final = re.compile(
    r"currency|(?:aud|brl|cad|chf|cny|czk|dkk|eur|gbp|hkd|inr|jpy|krw|mxn|nok|nzd|pln|sek|sgd|twd|zar)(?:_per_hour)?",
    re.IGNORECASE,
)

_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")


class MalformedControlError(ValueError):
    """Fields of a control are invalid; `details`: why, each begins with the field, and shows no value that may be an address."""

    def __init__(self, *details: str) -> None:
        super().__init__("; ".join(details))
        self.details = details


@overload
def all_of(first: Callable[[], _A], second: Callable[[], _B], /) -> tuple[_A, _B]: ...
@overload
def all_of(
    first: Callable[[], _A], second: Callable[[], _B], third: Callable[[], _C], /
) -> tuple[_A, _B, _C]: ...
@overload
def all_of(
    first: Callable[[], _A], second: Callable[[], _B], third: Callable[[], _C], fourth: Callable[[], _D], /
) -> tuple[_A, _B, _C, _D]: ...
def all_of(*parts: Callable[[], object]) -> tuple[object, ...]:
    """What each part of a record says, so that who mends one fault need not find the next one by publishing again.

    Raises:
        MalformedControlError: Some are malformed; the details are those of all of them.
    """
    found: list[object] = []
    details: list[str] = []
    for part in parts:
        try:
            found.append(part())
        except MalformedControlError as fault:
            details += fault.details
    refuse_any(details)
    return tuple(found)


def refuse_any(details: Iterable[str]) -> None:
    """Refuse a control of which anything is wrong.

    Raises:
        MalformedControlError: There are details.
    """
    if found := tuple(dict.fromkeys(details)):
        raise MalformedControlError(*found)


def with_match(match: Callable[[], Mapping[str, str]], made: Callable[[Mapping[str, str]], _A]) -> _A:
    """What `made` makes of a control's match fields.

    Raises:
        MalformedControlError: They are malformed, or other fields are; the details are those of both.
    """
    try:
        fields = match()
    except MalformedControlError as fault:
        details = [*fault.details]
        try:
            made({})
        except MalformedControlError as further:
            details += further.details
        raise MalformedControlError(*dict.fromkeys(details)) from None
    return made(fields)


def unknown_field(given: str, known: Collection[str]) -> str:
    """What is wrong with a field that no such control has."""
    shown = field_name(given)
    near = "" if shown == WITHHELD else nearest(given, sorted(known))
    return f"{shown}: no such field, expected one of {', '.join(sorted(known))}{near}"


def unknown_match_field(given: str, known: Collection[str], others: Iterable[str], label: str) -> str:
    """What is wrong with a field by which no such control matches; `label`: before the names of labels, empty: it has none."""
    shown = field_name(given)
    if _CURRENCY.fullmatch(given):
        return f"{shown}: {_IN_DOLLARS}"
    near = "" if shown == WITHHELD else nearest(given, (*known, *others))
    allowed = ", ".join(known) + (f" or {label}NAME" if label else "")
    return f"{shown}: no such match field, expected one of {allowed}{near}"


def check_fields(value: Mapping[str, object], known: Collection[str]) -> None:
    """Check that a control has these fields alone; a null is no field.

    Raises:
        MalformedControlError: It has another one.
    """
    refuse_any(
        unknown_field(given, known)
        for given, said in value.items()
        if given not in known and said is not None
    )
