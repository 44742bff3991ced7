"""What may be kept of a refused record that holds, or may hold, an owner's address: an address of Slack is a secret.

It must not judge a record. Records of `controls` are never kept as they are; of other topics those are not that look
like one, since a control sent to the wrong topic is refused there.
"""

import re
from itertools import islice
from typing import Final

import msgspec

from schemas.reasons import Reason

CONTROLS: Final = "controls"
WITHHELD: Final = "***"
_BEGIN: Final = b'{"withheld":true,'
# Words first, as most refused records have none; repetitions are bounded, so that no bytes take long. A quote inside a
# string, as of a record that was encoded twice, has backslashes before it.
_WORDS: Final = (b"slack", b"webhook", b"owner", b"control")
_LOOKS_LIKE_CONTROL: Final = re.compile(
    rb'"(?:slack|webhook|[\w.-]{0,64}controls)\\{0,3}"|hooks\.slack\.com|"topic\\{0,3}"\s{0,8}:\s{0,8}\\{0,3}"control'
    rb'|"kind\\{0,3}"\s{0,8}:\s{0,8}\\{0,3}"owner'
)
#: What was refused for its time alone is an event of its topic.
_OF_ITS_TOPIC: Final = frozenset({Reason.future.value, Reason.too_late.value})
_LOOKED_AT_BYTES: Final = 64 * 1024  # no more of a record is kept
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}", re.ASCII)
# Neither an address nor a part of one: without slashes and colons.
_NAME: Final = re.compile(r"[\w.@+ -]{1,64}")
_KEPT: Final = frozenset({"kind", "name", "topic"})
_INSIDE: Final = frozenset({"data", "value"})  # of an envelope, of a line of a file
_FIELDS_AT_MOST: Final = 64
_NESTED_AT_MOST: Final = 256  # brackets: what has more is not looked into, as a parser's limit may vary


class _Withheld(msgspec.Struct):
    """What is stored in a record's place; `fields` has `***` for all values but short names."""

    withheld: bool
    bytes: int
    fields: dict[str, object]


def is_secret(topic: str, value: bytes) -> bool:
    """Whether the bytes of a refused record, and what is in its fields, must not be stored, logged or sent on."""
    if topic == CONTROLS:
        return True
    head = value[:_LOOKED_AT_BYTES]
    return any(word in head for word in _WORDS) and _LOOKS_LIKE_CONTROL.search(head) is not None


def kept_raw(topic: str, reason: str, value: bytes) -> bytes:
    """The bytes to keep of a refused record: its own, or what stands in their place."""
    if topic != CONTROLS and reason in _OF_ITS_TOPIC:
        return value
    return withheld(value) if is_secret(topic, value) else value


def withheld(value: bytes) -> bytes:
    """JSON with the names of a record's fields and `***` for their values, but for a short `kind`, `name` and `topic`."""
    return msgspec.json.encode(_Withheld(withheld=True, bytes=len(value), fields=_fields(_object(value))))


def is_withheld(raw: bytes) -> bool:
    """Whether these bytes stand in the place of a record."""
    return raw.startswith(_BEGIN)


def field_name(name: str) -> str:
    """The name of a control's field, if it looks like one."""
    return name if _FIELD.fullmatch(name) else WITHHELD


def _object(value: bytes) -> dict[str, object]:
    if value.count(b"{") + value.count(b"[") > _NESTED_AT_MOST:
        return {}
    try:
        record = msgspec.json.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _fields(record: dict[str, object], *, inside: bool = False) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, item in islice(record.items(), _FIELDS_AT_MOST):
        shown = field_name(name)
        if name in _KEPT and isinstance(item, str) and _NAME.fullmatch(item):
            found[shown] = item
        elif name in _INSIDE and isinstance(item, dict) and not inside:
            found[shown] = _fields(item, inside=True)
        else:
            found[shown] = WITHHELD
    return found
