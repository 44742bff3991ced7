"""OpenTelemetry over HTTP: what its own exporter sends, the same in JSON, and what is refused. traces.bin and metrics.bin are
recorded from opentelemetry-exporter-otlp-proto-http 1.45.2, see `record.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from schemas.protobuf import fields_of
from sinks.errors import SinkBusy
from streams.web.ingest import BODY_MAX_BYTES
from streams.web.otlp import json_form, protobuf_form
from streams.web.otlp.endpoint import PROTOBUF
from streams.web.otlp.job_events import events_of_spans, heartbeats_of
from streams.web.otlp.telemetry import TelemetryError
from tests.web.serving import WALL_MS, Client, served
from tests.web.test_ingest import WRITE, Log
from tests.web.test_scopes import bearer

_HERE: Final = Path(__file__).parent
TRACES: Final = (_HERE / "traces.bin").read_bytes()
METRICS: Final = (_HERE / "metrics.bin").read_bytes()
T0_MS: Final = WALL_MS - 100_000


def sent(
    body: bytes,
    content_type: str = "application/json",
    path: str = "/v1/traces",
    log: Log | None = None,
    **headers: str,
) -> tuple[int, bytes, str, Log]:
    """Status, body and type of the answer, and the log."""
    used = log or Log()

    async def work(client: Client) -> tuple[int, bytes, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        all_headers = {"Content-Type": content_type, **bearer(WRITE), **named}
        async with client.session.post(client.server.url + path, data=body, headers=all_headers) as answer:
            return answer.status, await answer.read(), answer.content_type

    return (*served(None, work, events=used, write_token=WRITE), used)


def values(log: Log) -> list[dict[str, Any]]:
    return [orjson.loads(record.value) for record in log.records]


def attribute(key: str, value: object) -> dict[str, Any]:
    kind = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}[type(value)]
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def span(attributes: dict[str, object], **others: Any) -> dict[str, Any]:
    return {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": "EEE19B7EC3C1B174",
        "name": "train",
        "startTimeUnixNano": str(T0_MS * 10**6),
        "endTimeUnixNano": str((T0_MS + 60_000) * 10**6),
        "attributes": [attribute(key, value) for key, value in attributes.items()],
        **others,
    }


def traces(*spans: dict[str, Any], resource: dict[str, object] | None = None) -> bytes:
    attributes = [attribute(key, value) for key, value in (resource or {}).items()]
    return json.dumps(
        {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": list(spans)}]}]}
    ).encode()


JOB: Final[dict[str, object]] = {"trainfare.job.id": "run-7", "trainfare.job.gpus": 8}


def test_what_the_exporter_of_python_sends_becomes_lifecycles() -> None:
    status, body, content_type, log = sent(TRACES, PROTOBUF)
    assert (status, body, content_type) == (200, b"", PROTOBUF)
    assert {record.topic for record in log.records} == {"jobs"}
    assert {record.key for record in log.records} == {b"run-7", b"run-8", b"run-9"}
    found = values(log)
    assert [(each["job_id"], each["type"], each["time_ms"] - T0_MS) for each in found] == [
        ("run-7", "started", 0),
        ("run-7", "checkpointed", 30_000),
        ("run-7", "completed", 60_000),
        ("run-8", "started", 0),
        ("run-8", "failed", 45_000),
        ("run-9", "started", 500),
    ]
    started, _, completed, second, failed, begun = found
    assert started == started | {
        "source": "otlp",
        "gpu_count": 8,
        "gpu_type": "H100",
        "owner": "ada",
        "team": "vision",
        "region": "us-east-1",
    }
    assert (completed["quality"], completed["progress"]) == ({"loss": 0.25}, {"step": 1000})
    assert (second["attempt"], second["gpu_count"]) == (2, 0.5)
    assert (failed["attempt"], failed["reason"]) == (2, "out_of_memory")
    assert begun["gpu_count"] == 1
    assert b"hunter2" not in b"".join(record.value for record in log.records)


@pytest.mark.parametrize(
    ("value", "duration_ms", "said"),
    [
        ({"intValue": "4200"}, 4200, ""),
        ({"intValue": "-1"}, None, "expected a whole number of ms"),
        ({"intValue": "86400001"}, None, "expected a whole number of ms"),
        ({"stringValue": "long"}, None, "expected a whole number of ms"),
    ],
)
def test_a_checkpoint_may_say_how_long_it_took(
    value: dict[str, Any], duration_ms: int | None, said: str
) -> None:
    took = [{"key": "trainfare.checkpoint.duration_ms", "value": value}]
    event = {"name": "trainfare.checkpoint", "timeUnixNano": str(T0_MS * 10**6), "attributes": took}
    status, body, _, log = sent(traces(span(JOB, events=[event])))
    assert status == 200
    assert said in body.decode()
    (checkpointed,) = (each for each in values(log) if each["type"] == "checkpointed")
    assert checkpointed.get("duration_ms") == duration_ms


def test_sent_again_the_events_are_the_same() -> None:
    assert values(sent(TRACES, PROTOBUF)[3]) == values(sent(TRACES, PROTOBUF)[3])


def test_json_and_protobuf_make_the_same_events_of_the_same_spans() -> None:
    """The recorded spans, written as JSON by hand of what was read."""
    read = protobuf_form.spans_of(TRACES)
    written = [
        {
            "traceId": each.trace_id,
            "spanId": each.span_id,
            "startTimeUnixNano": each.start_nano,
            "endTimeUnixNano": str(each.end_nano),
            "status": {"code": 2 if each.is_error else 0},
            "attributes": [attribute(key, value) for key, value in each.attributes.items()],
            "events": [{"name": event.name, "timeUnixNano": str(event.time_nano)} for event in each.events],
        }
        for each in read
    ]
    again = json_form.spans_of(traces(*written, resource=dict(read[0].resource)))
    assert list(events_of_spans(again)) == list(events_of_spans(read))


def test_recorded_metrics_are_heartbeats_of_jobs() -> None:
    found = [each.event for each in heartbeats_of(protobuf_form.points_of(METRICS))]
    assert [(each["job_id"], each.get("attempt"), each["quality"]) for each in found] == [
        ("run-7", None, {"loss": 0.5}),
        ("run-8", 2, {"loss": 0.75}),
    ]
    assert found[0]["progress"] == {"tokens": 4096.0}
    assert {each["type"] for each in found} == {"heartbeat"}


def test_points_in_json_are_taken_and_others_left_out() -> None:
    point = {"timeUnixNano": str(T0_MS * 10**6), "attributes": [attribute("trainfare.job.id", "run-7")]}
    metrics = [
        {"name": "trainfare.quality.loss", "gauge": {"dataPoints": [{**point, "asDouble": 0.5}]}},
        {"name": "trainfare.progress.step", "sum": {"dataPoints": [{**point, "asInt": "12"}]}},
        {"name": "trainfare.quality.bad", "gauge": {"dataPoints": [{**point, "asDouble": "NaN"}, point]}},
        {"name": "trainfare.quality.hist", "histogram": {"dataPoints": [point]}},
        {"name": "http.server.duration", "gauge": {"dataPoints": [{**point, "asDouble": 1}]}},
        {"name": "trainfare.quality.loss", "gauge": {"dataPoints": [{"asDouble": 1}]}},
    ]
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).encode()
    status, answer, _, log = sent(body, path="/v1/metrics")
    assert status == 200
    assert json.loads(answer)["partialSuccess"] == {
        "rejectedDataPoints": "1",
        "errorMessage": "wrong_type: trainfare.quality.bad: nan is no finite number",
    }
    (beat,) = values(log)
    assert (beat["type"], beat["time_ms"], beat["quality"], beat["progress"]) == (
        "heartbeat",
        T0_MS,
        {"loss": 0.5},
        {"step": 12.0},
    )


def test_spans_without_a_job_are_taken_and_left_out() -> None:
    status, body, _, log = sent(traces(span({"http.method": "GET"}), resource=JOB))
    assert (status, body, log.records) == (200, b"{}", [])


def test_what_is_refused_is_said_in_otlps_words() -> None:
    wrong = span({**JOB, "trainfare.job.gpus": "many"})
    status, body, _, log = sent(traces(wrong, span({"trainfare.job.id": "run-8"}, spanId="0" * 15 + "1")))
    found = json.loads(body)["partialSuccess"]
    assert (status, found["rejectedSpans"], len(log.records)) == (200, "1", 3)
    assert "gpu_count" in found["errorMessage"]
    future = span({**JOB, "trainfare.job.event": "exploded"})
    assert "type" in json.loads(sent(traces(future))[1])["partialSuccess"]["errorMessage"]


def test_what_is_refused_is_said_in_protobuf_too() -> None:
    late = bytes.fromhex("3900000000000000 00".replace(" ", ""))
    message = TRACES.replace(bytes([0x39]) + (T0_MS * 10**6).to_bytes(8, "little"), late)
    assert message != TRACES
    status, body, content_type, log = sent(message, PROTOBUF)
    ((_, partial),) = fields_of(body)
    assert isinstance(partial, bytes)
    rejected, text = (value for _, value in fields_of(partial))
    assert (status, content_type, rejected) == (200, PROTOBUF, 2)
    assert isinstance(text, bytes)
    assert b"time_ms" in text
    assert len(log.records) == 4


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/grpc"]
)
def test_other_encodings_are_named(content_type: str) -> None:
    status, body, _, log = sent(TRACES, content_type)
    assert (status, log.records) == (415, [])
    assert b"send OTLP as application/json or application/x-protobuf" in body


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"{", "application/json", b"expected OTLP in JSON"),
        (b'{"resourceSpans": 5}', "application/json", b"expected OTLP in JSON"),
        (b"[]", "application/json", b"expected OTLP in JSON"),
        (b"5", "application/json", b"expected OTLP in JSON"),
        (b"\x0a\x05ab", PROTOBUF, b"expected OTLP in Protocol Buffers: field 1 is cut"),
        (b"\xff" * 50, PROTOBUF, b"expected OTLP in Protocol Buffers"),
    ],
)
def test_what_is_no_otlp_is_refused_as_a_whole(body: bytes, content_type: str, words: bytes) -> None:
    status, answer, _, log = sent(body, content_type)
    assert (status, log.records) == (400, [])
    assert words in answer


def test_every_cut_of_a_message_is_refused_or_read() -> None:
    for size in range(len(TRACES)):
        try:
            list(events_of_spans(protobuf_form.spans_of(TRACES[:size])))
        except TelemetryError:
            continue


def test_a_body_that_is_too_large_is_refused() -> None:
    status, _, _, log = sent(b"{" + b" " * BODY_MAX_BYTES)
    assert (status, log.records) == (413, [])


def test_the_token_must_have_the_scope_to_write() -> None:
    for path in ("/v1/traces", "/v1/metrics"):
        assert sent(b"{}", path=path)[0] == 200
        assert sent(b"{}", path=path, Authorization="Bearer of-somebody-who-may-not")[0] == 401


def test_without_kafka_it_is_tried_again() -> None:
    status, body, _, _ = sent(TRACES, PROTOBUF, log=Log(fault=SinkBusy("kafka is away", 1000)))
    assert status == 503
    assert b"send the same again" in body
