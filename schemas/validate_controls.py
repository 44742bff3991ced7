"""Converts control records to events."""

from collections.abc import Mapping
from typing import Final

from schemas.checks import check_time, money_nano
from schemas.events import ControlEvent
from schemas.limits import check_control
from schemas.refusal import refuse_missing
from schemas.validate_deeds import DEED, check_deed
from schemas.validate_requests import REQUEST, check_request
from schemas.validate_sources import SOURCE, check_source
from schemas.validate_tokens import TOKEN, check_token
from schemas.wire import ControlWire

_OWN_FIELDS: Final = frozenset(("source", "id", "time_ms", "kind", "name"))

ACK: Final = "ack"
DELETION: Final = ControlEvent(source="", id="", time_ms=0, kind="", name="", value={})
"""What a record without a value is: its key says which control is gone."""


def control_event(raw: ControlWire, record: Mapping[str, object], newest_allowed_ms: int) -> ControlEvent:
    """The event of a record of `controls`, which is passed both typed and whole.

    Raises:
        RefusedError: It is invalid.
    """
    check_time(raw.time_ms, newest_allowed_ms)
    money_nano("usd", raw.usd)
    money_nano("usd_per_hour", raw.usd_per_hour)
    value = {name: item for name, item in record.items() if name not in _OWN_FIELDS}
    check_control(value)
    if raw.kind == ACK and raw.alert_id is None:
        refuse_missing("alert_id", "`al_` and 24 hexadecimal digits, which `kind` ack requires")
    if raw.kind == SOURCE:
        check_source(value)
    if raw.kind == TOKEN:
        check_token(raw.name, value)
    if raw.kind == REQUEST:
        check_request(value)
    if raw.kind == DEED:
        check_deed(value)
    return ControlEvent(
        source=raw.source, id=raw.id, time_ms=raw.time_ms, kind=raw.kind, name=raw.name, value=value
    )
