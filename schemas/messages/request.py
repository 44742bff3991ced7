"""The message about what waits for a second person, field by field as it is sent.

A released field is never renamed or removed: receivers read these names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.messages.alert import LinkText, Rfc3339Text
from schemas.messages.receipt import InstantMs, ReceiptId, Sentence


class RequestLinks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a person confirms; what is not configured is absent."""

    confirm: Annotated[
        LinkText | UnsetType, Meta(description="Asks once, and confirms as whoever opens it.")
    ] = UNSET
    runbook: Annotated[LinkText | UnsetType, Meta(description="Who may confirm what.")] = UNSET


class RequestWaitingData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for, by whom, and until when it waits."""

    receipt_id: ReceiptId
    request_id: Annotated[str, Meta(description="What `trainfare approve` names.")]
    kind: Annotated[
        str, Meta(description="Of what was asked for: silence, planned, budget, prices or actions.")
    ]
    what: Annotated[str, Meta(description="Its fields as JSON, cut at 1,000 characters.")]
    by: str
    until_ms: InstantMs
    summary: Sentence
    command: Annotated[str, Meta(description="Confirms it, with the token of whoever does.")]
    links: RequestLinks | UnsetType = UNSET


class RequestWaiting(Struct, frozen=True, kw_only=True):
    """Something waits for a second person."""

    type: Literal["request.waiting"]
    timestamp: Rfc3339Text
    data: RequestWaitingData
