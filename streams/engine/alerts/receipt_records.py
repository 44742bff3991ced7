"""Who wants receipts of jobs that end and weekly digests, from the records of `controls`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.refusal import shown
from streams.engine.alerts.malformed import MalformedControlError, all_of, check_fields

_FIELDS: Final = frozenset({"on", "owner", "team", "comment", "by"})


class ReceiptRecord(NamedTuple):
    """An owner who wants receipts, or who gets the digest of a team; `since_ms`: nothing that ended before is sent."""

    name: str
    owner: str
    team: str  # empty: it is about the owner's own jobs
    on: bool
    since_ms: int


def receipt_record_of(name: str, value: Mapping[str, object], time_ms: int) -> ReceiptRecord:
    """Build a record from its fields; `owner` is the record's name if it is absent.

    Raises:
        MalformedControlError: A field is unknown or invalid; the message names it.
    """
    _, on, owner, team = all_of(
        lambda: check_fields(value, _FIELDS),
        lambda: _on(value.get("on")),
        lambda: _name(value, "owner"),
        lambda: _name(value, "team"),
    )
    return ReceiptRecord(name, owner or name, team, on, time_ms)


def _on(given: object) -> bool:
    if not isinstance(given, bool):
        raise MalformedControlError(f"on: got {shown(given)}, expected true or false")
    return given


def _name(value: Mapping[str, object], field: str) -> str:
    given = value.get(field)
    if given is None:
        return ""
    if not isinstance(given, str) or not given:
        raise MalformedControlError(f"{field}: expected a string that is not empty")
    return given


def receipt_request(owner: str, team: str, *, on: bool, comment: str = "") -> tuple[str, dict[str, object]]:
    """Return the name and the fields of a record; a later one for the same replaces it.

    Without a team the name is the owner's, as people write it by hand.
    """
    named = {"owner": owner, "team": team}
    fields: dict[str, object] = {key: value for key, value in named.items() if value} | {"on": on}
    if comment:
        fields["comment"] = comment
    return (f"{team}/{owner}" if team else owner), fields
