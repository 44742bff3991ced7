"""Makes a record of `controls` from what a client asks for: acknowledge, silence, planned rate, budget, receipts; what a source has read.

What a record means is the engine's to say: one that would have no effect is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.redaction import CONTROLS, field_name
from schemas.validate_requests import digest_of
from streams.engine.alerts.alert import ADDRESS_KINDS
from streams.engine.alerts.beside_others import ended_detail
from streams.engine.alerts.ineffective import details_of, field_and_reason
from streams.engine.alerts.receipt_records import receipt_request
from streams.engine.alerts.recurrence import FIELDS as RECURRENCE_FIELDS
from streams.web.scopes import CONTROL_SCOPES, ISSUED

SOURCE: Final = "trainfare/web"
KINDS: Final = tuple(CONTROL_SCOPES)
_OF_SOURCE: Final = "source"
_WITHOUT_END: Final = ("budget", "receipt", _OF_SOURCE)
#: The token of collectors that are nobody's to look after the meter: what its senders call a source is theirs alone.
_BY_WRITE: Final = "web.write_token"
#: A silence that is forgotten ends by itself.
UNTIL_MAX_MS: Final = 366 * 86_400_000
_OURS: Final = ("source", "id", "time_ms", "by", "specversion")
# Addresses are for those who may write to the topic: what is sent there is signed by us.
_BY_LOG_ALONE: Final = ADDRESS_KINDS
_OF_ACK: Final = frozenset(
    {"kind", "name", "alert_id", "until_ms", "comment", "job_id", "team", "usd_per_hour"}
)
_NOT_MATCHED: Final = frozenset(
    {"kind", "name", "from_ms", "until_ms", "usd_per_hour", "comment", "match", *RECURRENCE_FIELDS}
)


class FieldError(Exception):
    """A field of what was asked for is invalid."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ControlRecord(NamedTuple):
    """A record to write."""

    key: bytes
    value: bytes
    kind: str
    name: str
    id: str


def control_record(
    asked: Mapping[str, Any], by: str, now_ms: int, kept: Mapping[str, object] | None = None
) -> ControlRecord:
    """The record; its id is a function of `asked` and `by`, so that a retry writes the same one.

    Args:
        asked: The fields that a client sent.
        by: The name of the client's token.
        now_ms: Log time, ms since 1970.
        kept: Fields of the record that it replaces, an address among them; what is asked for goes before.

    Raises:
        FieldError: A field is invalid, or the record would have no effect.
    """
    kind = asked.get("kind")
    if kind not in KINDS:
        raise FieldError("kind", f"expected one of {', '.join(KINDS)}")
    for field in asked:
        if field in _OURS:
            raise FieldError(field, "the worker sets it")
        if field in _BY_LOG_ALONE:
            raise FieldError(field, "an address is set by a record of the topic alone (`trainfare publish`)")
    if kind == "ack":
        _check_ack(asked)
    if kind not in _WITHOUT_END:
        _check_until(asked, now_ms)
    name = asked.get("name") or _name(kind, asked)
    if kind == _OF_SOURCE and isinstance(name, str) and (by == _BY_WRITE or by.startswith(ISSUED)):
        # A collector over Kafka, or with the token of all scopes, may have the same name: neither replaces what the other says.
        name = f"{name} ({by.removeprefix('web.')})"
    content = {**(kept or {}), **asked, "kind": kind, "name": name, "by": by}
    identity = f"web_{digest_of(content)}"
    value = msgspec.json.encode({"source": SOURCE, "id": identity, "time_ms": now_ms, **content})
    event = decode(CONTROLS, value, (), now_ms)
    if details := [*details_of(event)]:
        field, reason = field_and_reason(details[0])
        raise FieldError(field, "; ".join([reason, *details[1:]]))
    assert isinstance(event, ControlEvent)
    until_ms = asked.get("until_ms")
    if until_ms is not None and until_ms <= now_ms and kind != "ack" and asked.get("name") is None:
        # With a name it may end the control of that name, which another worker may have written just now.
        raise FieldError(*field_and_reason(ended_detail(event)))
    key = f"{event.kind}/{event.name}".encode()
    return ControlRecord(key, value, event.kind, event.name, identity)


def _check_ack(asked: Mapping[str, Any]) -> None:
    for field in asked:
        if field not in _OF_ACK:
            raise FieldError(field_name(field), f"an ack has {', '.join(sorted(_OF_ACK))} alone")
    if asked.get("name") not in (None, asked.get("alert_id")):
        raise FieldError("name", "an ack is named by its alert; leave it out")


def _check_until(asked: Mapping[str, Any], now_ms: int) -> None:
    until_ms = asked.get("until_ms")
    if isinstance(until_ms, bool) or not isinstance(until_ms, int):
        raise FieldError("until_ms", "expected the ms since 1970 at which it ends")
    if until_ms > now_ms + UNTIL_MAX_MS:
        raise FieldError("until_ms", "expected an instant within a year")


def _name(kind: str, asked: Mapping[str, Any]) -> object:
    """The name: one of its own for each alert, or set of match fields; a later record replaces an earlier one."""
    if kind == "ack":
        return asked.get("alert_id") or "none"  # the schema refuses the record then
    if kind == "budget":
        raise FieldError("name", "expected the name of the budget")
    if kind == "receipt":
        return _receipt_name(asked)
    if kind == _OF_SOURCE:
        raise FieldError("name", "expected the name of the source")
    matched = {field: wanted for field, wanted in asked.items() if field not in _NOT_MATCHED}
    inner = asked.get("match")
    matched.update(inner if isinstance(inner, dict) else {})
    if not any(wanted is not None for wanted in matched.values()):
        # Without a field it would cover every alert there is.
        raise FieldError("match", "name what it is for: job_id, owner, team, project, rule...")
    return f"web_{digest_of({'kind': kind, **matched})}"


def _receipt_name(asked: Mapping[str, Any]) -> str:
    """The name that `trainfare receipts ask` gives the same record."""
    owner, team = asked.get("owner"), asked.get("team")
    if not isinstance(owner, str) or not owner:
        raise FieldError("owner", "expected the name of the owner who is sent it")
    return receipt_request(owner, team if isinstance(team, str) else "", on=True)[0]
