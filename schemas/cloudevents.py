"""CloudEvents 1.0 on Kafka: removes the envelope, in structured and in binary mode.

There is no batch mode: one record is one event. It reads `specversion`, `id`, `source` and `time` of the
envelope; `type` adds nothing to the payload.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

import msgspec

from schemas.reasons import Reason
from schemas.refusal import RefusedError, refuse, shown

SPECVERSION: Final = "1.0"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


class Headers(msgspec.Struct, frozen=True):
    """What a record's headers contain of its envelope."""

    structured: bool = False
    attributes: dict[str, str] | None = None  # binary mode, without the prefix


NO_ENVELOPE: Final = Headers()


def read_headers(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    """Determine the mode; the content type decides if both are present."""
    attributes: dict[str, str] = {}
    for name, raw in headers:
        lower = name.lower()
        if lower == "content-type" and raw is not None:
            if raw.strip().lower().startswith(b"application/cloudevents+json"):
                return Headers(structured=True)
        elif lower.startswith("ce_") and raw is not None:
            try:
                attributes[lower[3:]] = raw.decode("utf-8")
            except UnicodeDecodeError:
                _bad(f"header {lower}", raw.decode("utf-8", "backslashreplace"), "UTF-8")
    binary = not attributes.keys().isdisjoint(("specversion", "id", "source"))
    return Headers(attributes=attributes) if binary else NO_ENVELOPE


def unwrap_structured(event: Mapping[str, object]) -> dict[str, object]:
    """The payload of a structured event, with the common fields of its envelope.

    Raises:
        RefusedError: The envelope is invalid.
    """
    data = event.get("data")
    if data is None and event.get("data_base64") is not None:
        data = _from_base64(event["data_base64"])
    return with_envelope(data, event)


def with_envelope(data: object, attributes: Mapping[str, object]) -> dict[str, object]:
    """A payload with `id`, `source` and, if present, `time_ms` of its envelope.

    Raises:
        RefusedError: The payload is no object, or the envelope is invalid.
    """
    if attributes.get("specversion") != SPECVERSION:
        _bad("specversion", attributes.get("specversion"), f'"{SPECVERSION}"')
    if not isinstance(data, dict):
        raise RefusedError(Reason.not_an_object, "field `data`", shown(data), "one JSON object")
    record = {name: value for name, value in data.items() if name != "specversion"}
    for name in ("id", "source"):
        value = attributes.get(name)
        if not isinstance(value, str) or not value:
            _bad(name, value, "a string that is not empty")
        record[name] = value
    time = attributes.get("time")
    if time is not None:
        record["time_ms"] = rfc3339_ms(time)
    return record


def rfc3339_ms(text: object) -> int:
    """Convert an RFC 3339 time to ms since 1970; fractions of a millisecond are truncated.

    Raises:
        RefusedError: It is no such time.
    """
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        _bad("time", text, "an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_h, offset_min = match.groups()[6:]
    try:
        # A leap second is the second after :59, as in Unix time.
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        if second > 60 or int(offset_h or 0) > 23 or int(offset_min or 0) > 59:
            raise ValueError
    except ValueError:
        _bad("time", text, "an RFC 3339 time")
    whole_s = (moment - _EPOCH) // timedelta(seconds=1) + (second == 60)
    offset_s = int(offset_h or 0) * 3_600 + int(offset_min or 0) * 60
    whole_s += offset_s if sign == "-" else -offset_s
    return whole_s * 1_000 + int((fraction or "").ljust(3, "0")[:3])


def _from_base64(text: object) -> object:
    if not isinstance(text, str):
        _bad("data_base64", text, "a string")
    try:
        payload = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        _bad("data_base64", text, "base64")
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RefusedError(
            Reason.malformed_json, "field `data_base64`", shown(text), f"JSON ({error})"
        ) from None


def _bad(attribute: str, value: object, expected: str) -> NoReturn:
    refuse(Reason.bad_envelope, attribute, value, f"{expected}, as CloudEvents 1.0 has it")
