"""What may be stored of a refused record that may contain an owner's address: a Slack address is a secret.

Records of `controls` are never stored unchanged; neither are records of other topics that look like one, as a
control sent to the wrong topic is refused there.
"""

import re
from itertools import islice
from typing import Final

import msgspec

from schemas.reasons import Reason

CONTROLS: Final = "controls"
WITHHELD: Final = "***"
_BEGIN: Final = b'{"withheld":true,'
# Check words first, as most refused records have none; repetitions are bounded, so that no input takes long. Quotes
# inside a string, as in a record that was encoded twice, are preceded by backslashes.
_WORDS: Final = (b"slack", b"webhook", b"owner", b"control")
_LOOKS_LIKE_CONTROL: Final = re.compile(
    rb'"(?:slack|webhook|[\w.-]{0,64}controls)\\{0,3}"|hooks\.slack\.com|"topic\\{0,3}"\s{0,8}:\s{0,8}\\{0,3}"control'
    rb'|"kind\\{0,3}"\s{0,8}:\s{0,8}\\{0,3}"(?:owner|team)'
)
#: A record refused only for its time is a valid event of its topic.
_OF_ITS_TOPIC: Final = frozenset({Reason.future.value, Reason.too_late.value})
_LOOKED_AT_BYTES: Final = 64 * 1024  # no more of a record is stored
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}", re.ASCII)
# No address or part of one: without slashes and colons.
_NAME: Final = re.compile(r"[\w.@+ -]{1,64}")
_KEPT: Final = frozenset({"kind", "name", "topic"})
_INSIDE: Final = frozenset({"data", "value"})  # of an envelope, of a line of a file
_FIELDS_AT_MOST: Final = 64
_NESTED_AT_MOST: Final = 256  # brackets: deeper records are not parsed, as a parser's limit may vary


class _Withheld(msgspec.Struct):
    """What is stored in place of a record; in `fields` all values except short names are `***`."""

    withheld: bool
    bytes: int
    fields: dict[str, object]


def is_secret(topic: str, value: bytes) -> bool:
    """Whether the bytes and field values of a refused record must not be stored, logged or sent on."""
    if topic == CONTROLS:
        return True
    head = value[:_LOOKED_AT_BYTES]
    return any(word in head for word in _WORDS) and _LOOKS_LIKE_CONTROL.search(head) is not None


def kept_raw(topic: str, reason: str, value: bytes) -> bytes:
    """The bytes to store of a refused record: its own, or a replacement."""
    if topic != CONTROLS and reason in _OF_ITS_TOPIC:
        return value
    return withheld(value) if is_secret(topic, value) else value


def withheld(value: bytes) -> bytes:
    """JSON with a record's field names and `***` for their values, except a short `kind`, `name` and `topic`."""
    return msgspec.json.encode(_Withheld(withheld=True, bytes=len(value), fields=_fields(_object(value))))


def is_withheld(raw: bytes) -> bool:
    """Whether these bytes are such a replacement."""
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
