"""POST /v1/traces and /v1/metrics: takes OpenTelemetry's spans and metrics as events of jobs.

What names no job is taken and left out: a collector may send all that it has. Limits and refusals are those of
POST /api/v1/events, answers those of OTLP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from schemas.escaping import visible
from streams.topics import Topic
from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.ingest import BODY_THREADS, IngestEndpoint, JudgedEvents
from streams.web.ingest_body import EVENTS_MAX, PLAIN, RefusedEvent
from streams.web.otlp import json_form, protobuf_form
from streams.web.otlp.job_events import events_of_points, events_of_spans
from streams.web.otlp.telemetry import Point, TelemetryError, TraceSpan
from streams.web.scopes import Caller

PROTOBUF: Final = "application/x-protobuf"
_NO_HEADERS: Final[dict[str, str]] = {}
_MESSAGE_BYTES: Final = 1_000

Entry = TypeVar("Entry", TraceSpan, Point)


class OtlpEndpoint:
    """The endpoints of one server; `ingest` is where events go, and whose limits hold."""

    def __init__(self, ingest: IngestEndpoint) -> None:
        self._ingest = ingest

    async def traces(self, request: web.Request, caller: Caller) -> web.Response:
        """Take an ExportTraceServiceRequest.

        Raises:
            ApiError: It is none, or Kafka may lack some of it.
        """
        forms = {PLAIN: json_form.spans_of, PROTOBUF: protobuf_form.spans_of}
        return await self._take(request, caller, forms, events_of_spans, "rejectedSpans")

    async def metrics(self, request: web.Request, caller: Caller) -> web.Response:
        """Take an ExportMetricsServiceRequest.

        Raises:
            ApiError: It is none, or Kafka may lack some of it.
        """
        forms = {PLAIN: json_form.points_of, PROTOBUF: protobuf_form.points_of}
        return await self._take(request, caller, forms, events_of_points, "rejectedDataPoints")

    async def _take(
        self,
        request: web.Request,
        caller: Caller,
        forms: Mapping[str, Callable[[bytes], list[Entry]]],
        events_of: Callable[[Iterable[Entry]], Iterator[dict[str, Any]]],
        rejected: str,
    ) -> web.Response:
        if request.content_type not in forms:
            raise ApiError(415, f"send OTLP as {' or '.join(forms)}")
        form = forms[request.content_type]
        refused: list[RefusedEvent] = []

        def read(body: bytes) -> list[msgspec.Raw]:
            events = [msgspec.Raw(msgspec.json.encode(event)) for event in events_of(form(body))]
            if len(events) > EVENTS_MAX:
                raise TelemetryError(f"{len(events)} events of jobs, expected at most {EVENTS_MAX}")
            return events

        async def judge(body: bytes) -> JudgedEvents:
            try:
                events = await BODY_THREADS.run(read, body)
            except TelemetryError as fault:
                raise ApiError(400, visible(str(fault)[:500])) from None
            judged = await self._ingest.judged(events, Topic.JOBS, PLAIN, _NO_HEADERS)
            refused.extend(judged.refused)
            return judged

        await self._ingest.take(request, f"{caller.token} {caller.address}", judge)
        return _answer(refused, rejected, request.content_type)


def _answer(refused: list[RefusedEvent], rejected: str, content_type: str) -> web.Response:
    """Return OTLP's answer: empty, or how much was rejected and why the first was."""
    message = ""
    if refused:
        message = visible(f"{refused[0].reason}: {refused[0].detail}")[:_MESSAGE_BYTES]
    if content_type == PROTOBUF:
        return web.Response(body=_partial_success(len(refused), message), content_type=PROTOBUF)
    partial = {"partialSuccess": {rejected: str(len(refused)), "errorMessage": message}} if refused else {}
    return web.Response(body=to_json(partial), content_type=PLAIN)


def _partial_success(count: int, message: str) -> bytes:
    if not count:
        return b""
    text = message.encode()
    return _field(1, b"\x08" + _varint(count) + _field(2, text))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
