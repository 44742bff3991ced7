"""Explains refusals: from what a decoder or a check found wrong to a reason and a detail.

It explains decisions made elsewhere, and so may be slow.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from math import isfinite
from typing import Final, NoReturn, get_args, get_type_hints

import msgspec

from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.redaction import WITHHELD

SHOWN_CHARS: Final = 80
NOTHING: Final = object()
"""The value of a field that is absent."""

#: Fields whose values are no secrets, of records that may have some.
_OF_IDS: Final = frozenset({"field `alert_id`"})
_ID_SHOWN_CHARS: Final = 40
_LONGEST_MEANT: Final = 40
_SHOWN_NOTHING: Final = "nothing"  # a text would be quoted

# Patterns of msgspec's errors; tests/schemas/test_refused_fields.py has every form that can occur.
_AT: Final = re.compile(r" - at (?P<key>`key` in )?`(?P<path>\$[^`]*)`$")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_EXPECTED: Final = re.compile(r"Expected `(?P<type>[^`]+)`(?P<rest>.*)$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\.\.\.|\d+)\]")


class RefusedError(Exception):
    """Ends the validation of one record; it never leaves this package."""

    def __init__(self, reason: Reason, where: str, got: str, expected: str) -> None:
        """`where` is "record" or a field; `got` is the only part that contains a value."""
        super().__init__(reason, where)
        self._reason, self._where, self._got, self._expected = reason, where, got, expected

    def invalid(self, *, secret: bool) -> Invalid:
        """The refusal; without the value if that is `secret`, but for an id, and with what of a list was meant."""
        got, near = self._got, ""
        if secret and got != _SHOWN_NOTHING:
            near = did_you_mean(got.strip('"'), self._expected)
            got = _shown_id(got) if self._where in _OF_IDS else WITHHELD
        return Invalid(self._reason, f"{self._where}: got {got}, expected {self._expected}{near}")


def nearest(given: object, known: Iterable[str], least_ratio: float = 0.6) -> str:
    """A question for the known name that is meant, to end a message with; '' if none is as alike as `least_ratio` (0 to 1)."""
    found = difflib.get_close_matches(given, list(known), 1, least_ratio) if isinstance(given, str) else []
    return f"; did you mean {found[0]}?" if found else ""


def did_you_mean(given: str, expected: str) -> str:
    """The same question, of those that are `expected` in words, "one of a, b"."""
    _, _, listed = expected.partition("one of ")
    return nearest(given[:_LONGEST_MEANT].lower(), listed.split(", "))


def _shown_id(got: str) -> str:
    """A short id as it was typed; what has a part of an address in it is none."""
    if "/" in got or ":" in got:
        return WITHHELD
    return got if len(got) <= _ID_SHOWN_CHARS else f"{got[: _ID_SHOWN_CHARS - 1]}…"


def refuse(reason: Reason, field: str, value: object, expected: str) -> NoReturn:
    """Refuse a field's value.

    Raises:
        RefusedError: Always.
    """
    raise _refused(reason, field, value, expected)


def refuse_missing(field: str, expected: str) -> NoReturn:
    """Refuse a record that lacks a field.

    Raises:
        RefusedError: Always.
    """
    refuse(Reason.missing_field, field, NOTHING, expected)


def refuse_unknown(value: Mapping[str, object], known: Collection[str]) -> None:
    """Refuse a record with a field that it may not have; its value is in no words, as it may be a secret.

    Raises:
        RefusedError: It has one.
    """
    for field in value:
        if field not in known:
            refuse(Reason.unknown_value, field, "***", f"one of the fields {', '.join(sorted(known))}")


def shown(value: object) -> str:
    """A value as JSON, shortened, in valid UTF-8."""
    if value is NOTHING:
        return _SHOWN_NOTHING
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = "a value nested too deeply"
    return _short(text)


def explain_mismatch(error: msgspec.ValidationError, record: object, wire: type) -> RefusedError:
    """Explain which field of a parsed record does not fit its wire struct, and why."""
    if not isinstance(record, dict):
        return RefusedError(Reason.not_an_object, "record", shown(record), "one JSON object")
    message = str(error)
    missing = _MISSING.match(message)
    if missing:
        return _missing(missing["field"], wire)
    at = _AT.search(message)
    steps = _STEP.findall(at["path"]) if at else []
    if at is None or not steps:
        return RefusedError(Reason.wrong_type, "record", shown(record), message)
    message = message[: at.start()]
    top = steps[0][0]
    if message.endswith("got `null`") and len(steps) == 1:
        return _missing(top, wire)
    field, value = _locate(record, steps, str(error), wire)
    if at["key"]:
        field, value = f"{field} (a name in it)", ""
    expected = descriptions(wire).get(field) or f"{_plain(message)}, in {_description(wire, top)}"
    reason = _reason_of(message, top, value)
    return _refused(reason, field, value, expected)


def explain_unparsable(value: bytes, error: Exception) -> RefusedError:
    """Explain why bytes are no JSON; a literal such as NaN is named."""
    literals: list[str] = []

    def constant(name: str) -> float:
        literals.append(name)
        return float(name)

    try:
        record = json.loads(value.decode("utf-8"), parse_constant=constant)
    except UnicodeDecodeError as bad:
        byte = f"byte 0x{value[bad.start]:02x} at position {bad.start}"
        return RefusedError(Reason.malformed_json, "record", byte, "UTF-8")
    except RecursionError:
        return RefusedError(Reason.malformed_json, "record", _head(value), "less deep nesting")
    except ValueError as bad_value:
        if "integer string conversion" in str(bad_value):
            return RefusedError(Reason.out_of_range, "record", _head(value), "integers of 64 bits")
        record = NOTHING
    if isinstance(error, RecursionError):
        return RefusedError(Reason.malformed_json, "record", _head(value), "less deep nesting")
    if literals or isinstance(error, msgspec.ValidationError):
        found = _not_finite(record)
        if found is not None:
            return _refused(Reason.not_finite, found[0], found[1], "a finite number of JSON")
    return RefusedError(Reason.malformed_json, "record", _head(value), f"one JSON object ({error})")


@cache
def descriptions(wire: type) -> dict[str, str]:
    """What is expected of each field of a wire struct; nested fields as `budget.usd`."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(wire, include_extras=True).items():
        for inner in get_args(get_args(hint)[0]) if get_args(hint) else ():
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                found |= {f"{name}.{field}": text for field, text in descriptions(inner).items()}
        for meta in getattr(hint, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.description is not None:
                found[name] = meta.description
    return found


def _refused(reason: Reason, field: str, value: object, expected: str) -> RefusedError:
    return RefusedError(reason, f"field `{_short(field)}`", shown(value), expected)


def _short(text: str) -> str:
    if len(text) > SHOWN_CHARS:
        text = text[: SHOWN_CHARS - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _missing(field: str, wire: type) -> RefusedError:
    expected = f"{_description(wire, field)} (it is required)"
    return _refused(Reason.missing_field, field, NOTHING, expected)


def _description(wire: type, field: str) -> str:
    return descriptions(wire).get(field, "another value")


def _plain(message: str) -> str:
    """The expectation in msgspec's wording, for elements of arrays and objects."""
    expected = _EXPECTED.match(message)
    if expected is None:
        return "a number in range"
    return expected["type"] + expected["rest"].split(", got")[0]


def _reason_of(message: str, top: str, value: object) -> Reason:
    if message.startswith("Invalid enum"):
        return Reason.unknown_type if top == "type" else Reason.unknown_value
    if message.startswith("Number out of range"):
        return Reason.not_finite
    if ", got `" in message:
        not_finite = isinstance(value, float) and not isfinite(value)
        return Reason.not_finite if not_finite else Reason.wrong_type
    if "`array` of length <=" in message:
        return Reason.oversize
    if "of length <=" in message:
        return Reason.too_long
    return Reason.out_of_range


def _locate(
    record: dict[str, object], steps: list[tuple[str, str]], error: str, wire: type
) -> tuple[str, object]:
    """Follow a path such as `$.nodes[...]` to the field's full name and its value."""
    field, value = steps[0][0], record.get(steps[0][0], NOTHING)
    for name, index in steps[1:]:
        key: str | int | None
        if isinstance(value, dict):
            key = name or _offender(value, steps[0][0], error, wire)
            field, value = f"{field}.{key}", value.get(key, NOTHING)
        elif isinstance(value, list) and index.isdecimal():
            field, value = f"{field}[{index}]", value[int(index)]
    return field, value


def _offender(value: dict[str, object], field: str, error: str, wire: type) -> str | None:
    """The first entry of a dict that alone causes the same error."""
    for name, item in value.items():
        try:
            msgspec.convert({field: {name: item}}, wire)
        except msgspec.ValidationError as found:
            if str(found) == error:
                return name
    return None


def _not_finite(record: object) -> tuple[str, float] | None:
    """The first number of a parsed record that is not finite, with its path."""
    pending: list[tuple[str, object]] = [("", record)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, float) and not isfinite(value):
            return path or "record", value
        if isinstance(value, dict):
            pending += [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return None


def _head(value: bytes) -> str:
    return shown(value[: 4 * SHOWN_CHARS].decode("utf-8", "backslashreplace"))
