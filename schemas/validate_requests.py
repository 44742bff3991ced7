"""Checks the controls of kind `request`: a control that waits for a second person, and is in force for nobody until then."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from schemas.events import ControlEvent
from schemas.reasons import Reason
from schemas.refusal import refuse, refuse_missing, refuse_unknown

REQUEST: Final = "request"
KEY_PREFIX: Final = b"request/"
_FIELDS: Final = frozenset({"control", "by", "until_ms", "confirmed_by", "comment", "person", "subject"})
_DIGITS: Final = 24


#: What a request may be about beside a kind of control: whether actions of budgets are sent. Its newest record counts.
ACTIONS: Final = "actions"
ACTIONS_KEY: Final = KEY_PREFIX + ACTIONS.encode()
LIVE: Final = "live"


class WaitingRequest(NamedTuple):
    """A control that somebody asked for; `until_ms` is when it is too late to confirm it."""

    id: str
    control: Mapping[str, Any]
    by: str
    until_ms: int
    confirmed_by: str
    person: str = ""  # who has asked, where `by` is a token of somebody
    subject: str = ""  # a hash of what the identity provider knows a person by, who asked: names change
    asked_ms: int = 0

    @property
    def digest(self) -> str:
        """The digits of what is asked for and by whom: a link of one request confirms no other."""
        return digest_of([self.by, self.control])


def digest_of(content: object) -> str:
    """The digits by which a record of this content is known: the same content has the same, in whatever order its fields come."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:_DIGITS]


def is_request(key: bytes, event: ControlEvent | None) -> bool:
    """Whether a record of `controls` asks for a second person, or forgets such a one."""
    return key.startswith(KEY_PREFIX) and (event is None or event.kind == REQUEST)


def waiting_request(event: ControlEvent) -> WaitingRequest:
    """The request of a checked record."""
    value: Mapping[str, Any] = event.value
    return WaitingRequest(
        event.name,
        value["control"],
        value["by"],
        value["until_ms"],
        value.get("confirmed_by", ""),
        value.get("person", ""),
        value.get("subject", ""),
        event.time_ms,
    )


def are_actions_confirmed(requests: Mapping[bytes, ControlEvent]) -> bool:
    """Whether a second person has confirmed that actions of budgets are sent, and nobody has taken that back."""
    event = requests.get(ACTIONS_KEY)
    found = None if event is None else waiting_request(event)
    return found is not None and bool(found.confirmed_by) and found.control.get("mode") == LIVE


def check_request(value: Mapping[str, object]) -> None:
    """Check the fields of a record.

    Raises:
        RefusedError: One is missing or invalid.
    """
    refuse_unknown(value, _FIELDS)
    if not isinstance(value.get("control"), dict):
        refuse_missing("control", "the fields of what was asked for")
    if not isinstance(value.get("by"), str) or not value["by"]:
        refuse_missing("by", "who asked for it")
    until = value.get("until_ms")
    if isinstance(until, bool) or not isinstance(until, int):
        refuse_missing("until_ms", "ms since 1970 UTC")
    if not isinstance(value.get("confirmed_by", ""), str):
        refuse(Reason.wrong_type, "confirmed_by", "***", "who confirmed it")
    for field in ("person", "subject"):
        if not isinstance(value.get(field, ""), str):
            refuse(Reason.wrong_type, field, "***", "who asked for it")
