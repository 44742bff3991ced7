"""The forms in which events come over HTTP: one, an array, CloudEvents structured, batched and binary.

It says of each event what record it is, or why it is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from schemas.counting import how_many
from schemas.decode import decode
from schemas.events import Event
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.wire_types import MAX_KEY_BYTES
from streams.keys import OutgoingRecord, key_of
from streams.topics import SHARD_TOPICS, Topic

PLAIN: Final = "application/json"
STRUCTURED: Final = "application/cloudevents+json"
BATCHED: Final = "application/cloudevents-batch+json"
FORMS: Final = (PLAIN, STRUCTURED, BATCHED)
EVENTS_MAX: Final = 10_000

_OF_HTTP: Final = "ce-"
_OF_KAFKA: Final = "ce_"
_FIELD: Final = re.compile(r"field `([^`]*)`: ")
_TOPICS: Final = frozenset(SHARD_TOPICS)


class BodyError(Exception):
    """The body as a whole is none of the forms."""


class RefusedEvent(msgspec.Struct):
    """Why an event was not written; `index` counts from 0, `field` is empty where no single one is at fault."""

    index: int
    reason: str
    field: str
    detail: str


class AcceptedEvent(msgspec.Struct, frozen=True):
    """An event that is well-formed, with its record; `index` counts from 0."""

    index: int
    record: OutgoingRecord
    event: Event


class _Addressed(msgspec.Struct):
    topic: Any
    value: msgspec.Raw


_raw: Final = msgspec.json.Decoder(msgspec.Raw)
_raws: Final = msgspec.json.Decoder(list[msgspec.Raw])
_addressed: Final = msgspec.json.Decoder(_Addressed)


def events_of(body: bytes, content_type: str, topic: str, headers: Mapping[str, str]) -> list[msgspec.Raw]:
    """The events in a body, not parsed.

    Args:
        body: What was sent.
        content_type: One of FORMS.
        topic: That of the request; empty: each event names its own.
        headers: Of the request.

    Raises:
        BodyError: It is no JSON, has too many events, or needs a topic.
    """
    is_batch = content_type == BATCHED or (content_type == PLAIN and body.lstrip()[:1] == b"[")
    if not topic and (content_type != PLAIN or _envelope(headers)):
        raise BodyError("name the topic of a CloudEvent: ?topic=jobs")
    try:
        body.decode()  # the decoder does not check all strings
        found = _raws.decode(body) if is_batch else [_raw.decode(body)]
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise BodyError(f"expected JSON: {fault}") from None
    if len(found) > EVENTS_MAX:
        raise BodyError(f"{how_many(len(found), 'event')}, expected at most {EVENTS_MAX}")
    return found


def records_of(
    events: list[msgspec.Raw],
    first: int,
    topic: str,
    content_type: str,
    headers: Mapping[str, str],
    newest_allowed_ms: int,
) -> Iterator[AcceptedEvent | RefusedEvent]:
    """Yield for each event its record, or why it has none; `first` is the index of the first one."""
    envelope: list[tuple[str, bytes | None]] = (
        [("content-type", STRUCTURED.encode())] if content_type != PLAIN else _envelope(headers)
    )
    for index, event in enumerate(events, first):
        name, value = topic, bytes(event)
        if not topic:
            try:
                addressed = _addressed.decode(event)
            except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                detail = f'expected {{"topic": "jobs", "value": {{...}}}}: {fault}'
                yield RefusedEvent(index, Reason.not_an_object, "", detail)
                continue
            name, value = addressed.topic if isinstance(addressed.topic, str) else "", bytes(addressed.value)
        if name not in _TOPICS:
            detail = (
                f"expected one of {', '.join(SHARD_TOPICS)}; prices and controls have commands of their own"
            )
            yield RefusedEvent(index, Reason.unknown_topic, "topic", detail)
            continue
        found = decode(name, value, envelope, newest_allowed_ms)
        if isinstance(found, Invalid):
            field = _FIELD.match(found.detail)
            yield RefusedEvent(index, found.reason, field[1] if field else "", found.detail)
            continue
        key = key_of(Topic(name), value)[:MAX_KEY_BYTES]
        yield AcceptedEvent(index, OutgoingRecord(Topic(name), key, value, [*envelope]), found)


def _envelope(headers: Mapping[str, str]) -> list[tuple[str, bytes | None]]:
    """The envelope of binary mode as headers of Kafka; empty if there is none."""
    return [
        (f"{_OF_KAFKA}{name.lower().removeprefix(_OF_HTTP)}", value.encode("utf-8", "surrogateescape"))
        for name, value in headers.items()
        if name.lower().startswith(_OF_HTTP)
    ]
