"""Decodes records of the log to events: the one place where data enters.

A record that is no valid event is an `Invalid`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.canary_proof import CanaryProof
from schemas.cloudevents import NO_ENVELOPE, Headers, read_headers, unwrap_structured, with_envelope
from schemas.events import Event
from schemas.invalid import Invalid
from schemas.limits import check_names
from schemas.reasons import Reason
from schemas.redaction import CONTROLS, is_secret
from schemas.refusal import RefusedError, explain_mismatch, explain_unparsable, refuse, shown
from schemas.reserved import CANARY, GROUPED, reserved_in
from schemas.unread_batch import Unread
from schemas.validate_controls import DELETION, control_event
from schemas.validate_gpu import gpu_event
from schemas.validate_jobs import job_event, node_event
from schemas.validate_prices import price_event
from schemas.validate_traffic import network_event, storage_event
from schemas.wire import ControlWire, GpuWire, JobWire, NetworkWire, NodeWire, PriceWire, StorageWire, Wire

RECORD_MAX_BYTES: Final = 2**20
MAX_DEPTH: Final = 256
"""A limit of our own: that of the parser depends on the call stack, and a verdict must not."""


class _Topic(msgspec.Struct, frozen=True):
    """How the records of a topic are decoded; the validator matches the wire struct."""

    wire: type[Wire]
    decoder: msgspec.json.Decoder[Any]
    validate: Callable[[Any, int], Event]
    has_groups: bool  # of names that tables show beside words of their own


def _topic(wire: type[Wire], validate: Callable[[Any, int], Event]) -> _Topic:
    has_groups = not GROUPED.isdisjoint(wire.__struct_fields__)
    return _Topic(wire, msgspec.json.Decoder(wire), validate, has_groups)


_TOPICS: Final[dict[str, _Topic]] = {
    "jobs": _topic(JobWire, job_event),
    "gpu": _topic(GpuWire, gpu_event),
    "network": _topic(NetworkWire, network_event),
    "storage": _topic(StorageWire, storage_event),
    "nodes": _topic(NodeWire, node_event),
    "prices": _topic(PriceWire, price_event),
}
WIRES: Final[dict[str, type[Wire]]] = {
    **{topic: known.wire for topic, known in _TOPICS.items()},
    CONTROLS: ControlWire,
}
"""What the records of each topic look like."""

# An unterminated string matches, too, so that every input takes one pass only.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_CANARY: Final = CANARY.encode()
_BACKSLASH: Final = ord("\\")  # searching an integer takes a tenth of the time of searching bytes
_PARSE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


_UNREAD: Final = (
    "record: got a batch of over 64 MiB, or a million records, when decompressed, expected batches as producers make them; "
    "none of its records was read"
)


def decode(
    topic: str,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    newest_allowed_ms: int,
    proof: CanaryProof | None = None,
) -> Event | Invalid:
    """The event of a record, or why there is none.

    `topic` is without prefix. An event later than `newest_allowed_ms` is refused as `future`. The names of the canary are for
    records that `proof` holds for; without one nobody has them.
    """
    known = _TOPICS.get(topic)
    if known is None and topic != CONTROLS:
        expected = ", ".join((*_TOPICS, CONTROLS))
        return Invalid(Reason.unknown_topic, f"topic: got {shown(topic)}, expected one of {expected}")
    if isinstance(value, Unread):
        return Invalid(Reason.unread_batch, _UNREAD)
    if value is None:
        if topic == CONTROLS:
            return DELETION
        return Invalid(Reason.not_an_object, "record: got nothing (a tombstone), expected one JSON object")
    if len(value) > RECORD_MAX_BYTES:
        detail = f"record: got {len(value)} bytes, expected at most {RECORD_MAX_BYTES}"
        return Invalid(Reason.oversize, detail)
    if len(value) > 2 * MAX_DEPTH and _too_deep(value):
        detail = f"record: got more levels of nesting, expected at most {MAX_DEPTH}"
        return Invalid(Reason.malformed_json, detail)
    try:
        envelope = read_headers(headers) if headers else NO_ENVELOPE
        if known is not None and envelope is NO_ENVELOPE:
            event = _decode_plain(topic, known, value, newest_allowed_ms, proof)
            if event is not None:
                return event
        return _decode_any(known, value, envelope, newest_allowed_ms)
    except RefusedError as refusal:
        return refusal.invalid(secret=is_secret(topic, value))


def _too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub(b"", value)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _decode_plain(
    topic: str, known: _Topic, value: bytes, newest_allowed_ms: int, proof: CanaryProof | None
) -> Event | None:
    """Decode nearly all records by the fast path; return None if the record needs the general one."""
    try:
        is_ascii = value.isascii()
        if not is_ascii:
            value.decode("utf-8")  # msgspec does not check strings of unknown fields
        raw = known.decoder.decode(value)
    except _PARSE_ERRORS:
        return None
    if raw.specversion is not None:
        return None
    # Otherwise a character is a byte, and the decoder has counted those.
    if not is_ascii or _BACKSLASH in value:
        check_names(raw)
        _check_reserved(raw)
    elif _CANARY in value:
        if proof is None or not proof.holds(topic, value, raw.id or ""):
            _check_reserved(raw)
    elif known.has_groups:
        _check_reserved(raw)
    return known.validate(raw, newest_allowed_ms)


def _check_reserved(raw: Wire) -> None:
    found = reserved_in(raw)
    if found is not None:
        refuse(Reason.reserved_name, found.field, found.value, found.expected)


def _decode_any(
    known: _Topic | None,
    value: bytes,
    envelope: Headers,
    newest_allowed_ms: int,
) -> Event:
    """Decode by the general path: envelopes, controls, and every refusal that must be explained."""
    record = _without_envelope(_parse(value), envelope)
    wire = ControlWire if known is None else known.wire
    try:
        raw: Any = msgspec.convert(record, wire)
    except msgspec.ValidationError as error:
        raise explain_mismatch(error, record, wire) from None
    check_names(raw)
    _check_reserved(raw)
    if known is None:
        return control_event(raw, record, newest_allowed_ms)
    return known.validate(raw, newest_allowed_ms)


def _parse(value: bytes) -> dict[str, object]:
    try:
        value.decode("utf-8")
        record = msgspec.json.decode(value)
    except _PARSE_ERRORS as error:
        raise explain_unparsable(value, error) from None
    if not isinstance(record, dict):
        raise RefusedError(Reason.not_an_object, "record", shown(record), "one JSON object")
    return record


def _without_envelope(record: dict[str, object], headers: Headers) -> Mapping[str, object]:
    if headers.attributes is not None:
        return with_envelope(record, headers.attributes)
    if headers.structured or record.get("specversion") is not None:
        return unwrap_structured(record)
    return record
