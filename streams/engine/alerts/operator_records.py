"""Who operates prices, sources and nodes, from the records of `controls`: they get the alerts that nobody else can mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.refusal import nearest
from streams.engine.alerts.malformed import MalformedControlError, all_of, check_fields

#: What has operators; rules name them (`LedgerRule.operator`).
OPERATED: Final = ("prices", "sources", "nodes")
_FIELDS: Final = frozenset({"owner", "comment", "by"})


def operator_owner(name: str, value: Mapping[str, object]) -> str:
    """Return the owner whose addresses get the alerts about what the record's name says.

    Raises:
        MalformedControlError: The name is none of `OPERATED`, or a field is unknown or invalid; the message names it.
    """
    if name not in OPERATED:
        raise MalformedControlError(f"name: expected one of {', '.join(OPERATED)}{nearest(name, OPERATED)}")
    _, owner = all_of(lambda: check_fields(value, _FIELDS), lambda: _owner(value.get("owner")))
    return owner


def _owner(given: object) -> str:
    if not isinstance(given, str) or not given:
        raise MalformedControlError("owner: expected the name of an owner record")
    return given
