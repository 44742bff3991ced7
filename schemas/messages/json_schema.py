"""Writes the JSON Schema (2020-12) of a message from its struct: `python -m schemas.messages.json_schema TYPE`.

The files `schemas/messages/TYPE.json` are what it writes (`make docs`); a test compares them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from schemas.messages.action import ActionRequested
from schemas.messages.alert import AlertFiring, AlertResolved
from schemas.messages.digest import DigestWeekly
from schemas.messages.receipt import JobEnded
from schemas.messages.request import RequestWaiting

#: `type` of a message -> its struct. Receivers find the schema of a message by its type.
MESSAGES: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {
        "alert.firing": AlertFiring,
        "alert.resolved": AlertResolved,
        "action.requested": ActionRequested,
        "job.ended": JobEnded,
        "digest.weekly": DigestWeekly,
        "request.waiting": RequestWaiting,
    }
)


def schema_of(message_type: str) -> dict[str, Any]:
    """The schema of a message; unknown fields are allowed, as later versions may add some."""
    (reference,), definitions = msgspec.json.schema_components(
        [MESSAGES[message_type]], ref_template="#/$defs/{name}"
    )
    own = reference["$ref"].rpartition("/")[2]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:trainfare:message:{message_type}",
        **definitions[own],
        "title": message_type,
        "$defs": {name: each for name, each in sorted(definitions.items()) if name != own},
    }


def rendered(message_type: str) -> str:
    """The content of the message's file."""
    return json.dumps(schema_of(message_type), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rendered(sys.argv[1]))
