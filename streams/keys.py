"""The key of an event on Kafka, so that all of a job, a node, a price revision or a control meets in one partition.

It must not judge an event: one without the fields of its key gets an empty key and is refused by the meter.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streams.topics import Topic


class _KeyFields(msgspec.Struct):
    """Only what keys are made of; everything else of the event is skipped, not parsed."""

    job_id: Any = None
    node: Any = None
    sku: Any = None
    effective_ms: Any = None
    kind: Any = None
    name: Any = None
    specversion: Any = None
    data: msgspec.Raw = msgspec.Raw()


_decoder = msgspec.json.Decoder(_KeyFields)


def key_of(topic: Topic, value: bytes | msgspec.Raw) -> bytes:
    """Return the key of an event, also of one inside a structured CloudEvent."""
    try:
        fields = _decoder.decode(value)
        if fields.specversion is not None and bytes(fields.data):
            fields = _decoder.decode(fields.data)
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
