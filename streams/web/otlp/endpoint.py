"""POST /v1/traces and /v1/metrics: takes OpenTelemetry's spans and metrics as events of jobs.

What names no job is taken and left out: a collector may send all that it has. What is bad is rejected by itself, and said in
OTLP's `partialSuccess`: an exporter gives up a whole request that is answered with 4xx. Limits are those of POST /api/v1/events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from schemas.escaping import visible
from schemas.reasons import Reason
from schemas.validate_tokens import TokenBounds
from streams.keys import OutgoingRecord
from streams.topics import Topic
from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.ingest import BODY_THREADS, IngestEndpoint, JudgedEvents
from streams.web.ingest_body import EVENTS_MAX, PLAIN
from streams.web.otlp import json_form, protobuf_form
from streams.web.otlp.job_events import Heartbeat, events_of_spans, heartbeats_of
from streams.web.otlp.telemetry import Faults, Point, TelemetryError, TraceSpan
from streams.web.scopes import Caller

PROTOBUF: Final = "application/x-protobuf"
_NO_HEADERS: Final[dict[str, str]] = {}
_MESSAGE_BYTES: Final = 1_000
_TOO_MANY: Final = f"more than {EVENTS_MAX} events of jobs in one request; send fewer at once"

Spans: TypeAlias = Callable[[bytes, Faults], list[TraceSpan]]
Points: TypeAlias = Callable[[bytes, Faults], list[Point]]
_SPANS: Final[Mapping[str, Spans]] = {PLAIN: json_form.spans_of, PROTOBUF: protobuf_form.spans_of}
_POINTS: Final[Mapping[str, Points]] = {PLAIN: json_form.points_of, PROTOBUF: protobuf_form.points_of}


class OtlpEndpoint:
    """The endpoints of one server; `ingest` is where events go, and whose limits hold."""

    def __init__(self, ingest: IngestEndpoint) -> None:
        self._ingest = ingest

    async def traces(self, request: web.Request, caller: Caller) -> web.Response:
        """Take an ExportTraceServiceRequest.

        Raises:
            ApiError: The body is not such a request, or Kafka may lack some of it.
        """
        form = _form(_SPANS, request)

        async def records(body: bytes, faults: Faults) -> list[OutgoingRecord]:
            events, owners = await BODY_THREADS.run(_span_events, form, body, faults)
            judged = await self._judged(events, caller.bounds)
            refused = {owners[each.index]: each for each in reversed(judged.refused)}
            for each in reversed(refused.values()):  # the first of each span
                faults.reject(each.detail, each.reason)
            return judged.records

        return await self._take(request, caller, records, "rejectedSpans")

    async def metrics(self, request: web.Request, caller: Caller) -> web.Response:
        """Take an ExportMetricsServiceRequest.

        Raises:
            ApiError: The body is not such a request, or Kafka may lack some of it.
        """
        form = _form(_POINTS, request)

        async def records(body: bytes, faults: Faults) -> list[OutgoingRecord]:
            return await self._of_points(await BODY_THREADS.run(form, body, faults), faults, caller.bounds)

        return await self._take(request, caller, records, "rejectedDataPoints")

    async def _of_points(
        self, points: Sequence[Point], faults: Faults, bounds: TokenBounds
    ) -> list[OutgoingRecord]:
        """The records of points. One that makes its job's event a bad one does not cost the job's other points."""
        heartbeats, events = await BODY_THREADS.run(_heartbeats, points, faults)
        judged = await self._judged(events, bounds)
        suspects = [point for each in judged.refused for point in heartbeats[each.index].points]
        if not suspects:
            return judged.records
        alone = await self._judged(await BODY_THREADS.run(_alone, suspects), bounds)
        bad = {each.index for each in alone.refused}
        for each in alone.refused:
            faults.reject(f"{suspects[each.index].metric[:80]}: {each.detail}", each.reason)
        good = [point for index, point in enumerate(suspects) if index not in bad]
        heartbeats, events = await BODY_THREADS.run(_heartbeats, good, faults)
        together = await self._judged(events, bounds)
        for each in together.refused:
            faults.reject(each.detail, each.reason, len(heartbeats[each.index].points))
        return [*judged.records, *together.records]

    async def _judged(self, events: list[msgspec.Raw], bounds: TokenBounds) -> JudgedEvents:
        return await self._ingest.judged(events, Topic.JOBS, PLAIN, _NO_HEADERS, bounds)

    async def _take(
        self,
        request: web.Request,
        caller: Caller,
        records: Callable[[bytes, Faults], Awaitable[list[OutgoingRecord]]],
        rejected: str,
    ) -> web.Response:
        faults = Faults()

        async def judge(body: bytes) -> JudgedEvents:
            try:
                return JudgedEvents(await records(body, faults), [])
            except TelemetryError as fault:
                raise ApiError(400, visible(str(fault)[:500])) from None

        await self._ingest.take_of(request, caller, judge)
        self._ingest.outcomes.update(faults.reasons)
        return _answer(faults, rejected, request.content_type)


def _form(forms: Mapping[str, Spans] | Mapping[str, Points], request: web.Request) -> Any:
    if request.content_type not in forms:
        raise ApiError(415, f"send OTLP as {' or '.join(forms)}")
    return forms[request.content_type]


def _span_events(form: Spans, body: bytes, faults: Faults) -> tuple[list[msgspec.Raw], list[int]]:
    events: list[msgspec.Raw] = []
    owners: list[int] = []
    for index, span in enumerate(form(body, faults)):
        try:
            made = [_encoded(event) for event in events_of_spans([span], faults)]
        except TelemetryError as fault:
            faults.reject(f"a span: {fault}")
            continue
        if len(events) + len(made) > EVENTS_MAX:
            faults.reject(_TOO_MANY, Reason.oversize)
            continue
        events += made
        owners += [index] * len(made)
    return events, owners


def _heartbeats(points: Sequence[Point], faults: Faults) -> tuple[list[Heartbeat], list[msgspec.Raw]]:
    found = list(heartbeats_of(points, faults))
    for beyond in found[EVENTS_MAX:]:
        faults.reject(_TOO_MANY, Reason.oversize, len(beyond.points))
    del found[EVENTS_MAX:]
    return found, [_encoded(each.event) for each in found]


def _alone(points: Sequence[Point]) -> list[msgspec.Raw]:
    """An event of each point."""
    return [_encoded(each.event) for point in points for each in heartbeats_of([point])]


def _encoded(event: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(event))


def _answer(faults: Faults, rejected: str, content_type: str) -> web.Response:
    """OTLP's answer: empty, or how much was rejected and why the first was; or only what was left out."""
    message = visible(faults.message)[:_MESSAGE_BYTES]
    if content_type == PROTOBUF:
        return web.Response(body=_partial_success(faults.rejected, message), content_type=PROTOBUF)
    found = {rejected: str(faults.rejected), "errorMessage": message}
    return web.Response(body=to_json({"partialSuccess": found} if message else {}), content_type=PLAIN)


def _partial_success(count: int, message: str) -> bytes:
    if not message:
        return b""
    counted = b"\x08" + _varint(count) if count else b""
    return _field(1, counted + _field(2, message.encode()))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
