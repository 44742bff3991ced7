"""Derives the Kafka key of an event, so that all events of a job, node, price or control are in one partition.

One without its key's fields gets an empty key and is refused by the meter.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import msgspec

from streams.topics import Topic


class OutgoingRecord(NamedTuple):
    """A record to write to a topic, for the partition of its key."""

    topic: Topic
    key: bytes
    value: bytes
    headers: list[tuple[str, str | bytes | None]]


class _KeyFields(msgspec.Struct):
    """The fields that keys are made of; the rest of the event is skipped, not parsed."""

    job_id: Any = None
    node: Any = None
    sku: Any = None
    effective_ms: Any = None
    kind: Any = None
    name: Any = None
    specversion: Any = None
    data: msgspec.Raw = msgspec.Raw()
    data_base64: Any = None


_decoder = msgspec.json.Decoder(_KeyFields)


def key_of(topic: Topic, value: bytes | msgspec.Raw) -> bytes:
    """The key of an event, even inside a structured CloudEvent."""
    try:
        fields = _decoder.decode(value)
        if fields.specversion is not None and bytes(fields.data) not in (b"", b"null"):
            fields = _decoder.decode(fields.data)
        elif fields.specversion is not None and isinstance(fields.data_base64, str):
            fields = _decoder.decode(base64.b64decode(fields.data_base64))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return b""
    return _joined(topic, fields).encode("utf-8", "surrogatepass")


def _joined(topic: Topic, fields: _KeyFields) -> str:
    if topic is Topic.NODES:
        return _text(fields.node)
    if topic is Topic.PRICES:
        return f"{_text(fields.sku)}@{_text(fields.effective_ms)}"
    if topic is Topic.CONTROLS:
        return f"{_text(fields.kind)}/{_text(fields.name)}"
    return _text(fields.job_id) or (_text(fields.node) if topic is Topic.GPU else "")


def _text(field: object) -> str:
    return str(field) if isinstance(field, (str, int)) else ""
