from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from schemas.cloudevents import rfc3339_ms
from schemas.decode import decode
from schemas.events import ControlEvent, Event
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.refusal import RefusedError
from tests.schemas.records import FULL, NOW_MS, decoded, record

Headers = list[tuple[str, bytes | None]]

ENVELOPE = {"specversion": "1.0", "id": "ce-7", "source": "/slurm", "type": "org.example.usage"}
TIME = "2025-10-09T08:53:20.123Z"
TIME_MS = NOW_MS + 123
STRUCTURED: Headers = [("content-type", b"application/cloudevents+json; charset=UTF-8")]


def binary(**attributes: str) -> Headers:
    named = {**ENVELOPE, **attributes}
    headers: Headers = [(f"ce_{name}", text.encode()) for name, text in named.items()]
    return [("content-type", b"application/json"), *headers]


def read(topic: str, value: object, headers: Headers) -> Event | Invalid:
    return decode(topic, json.dumps(value).encode(), headers, NOW_MS + 300_000)


def expected(topic: str, **changes: Any) -> Event | Invalid:
    return decoded(topic, record(topic, id="ce-7", source="/slurm", **changes))


@pytest.mark.parametrize("topic", sorted(FULL))
def test_structured_mode_takes_id_source_and_time_from_the_envelope(topic: str) -> None:
    value = {**ENVELOPE, "time": TIME, "data": FULL[topic]}
    assert read(topic, value, STRUCTURED) == expected(topic, time_ms=TIME_MS)
    assert read(topic, value, []) == expected(topic, time_ms=TIME_MS)


@pytest.mark.parametrize("topic", sorted(FULL))
def test_binary_mode_takes_id_source_and_time_from_the_headers(topic: str) -> None:
    assert read(topic, FULL[topic], binary(time=TIME)) == expected(topic, time_ms=TIME_MS)


@pytest.mark.parametrize("topic", sorted(FULL))
def test_the_payload_needs_none_of_what_the_envelope_brings(topic: str) -> None:
    data = record(topic, id=..., source=..., time_ms=...)
    assert read(topic, {**ENVELOPE, "time": TIME, "data": data}, []) == expected(topic, time_ms=TIME_MS)
    assert read(topic, data, binary(time=TIME)) == expected(topic, time_ms=TIME_MS)


def test_without_a_time_in_the_envelope_that_of_the_payload_counts() -> None:
    assert read("jobs", {**ENVELOPE, "data": FULL["jobs"]}, []) == expected("jobs")
    assert read("jobs", FULL["jobs"], binary()) == expected("jobs")
    late = read("jobs", record("jobs", time_ms=...), binary())
    assert isinstance(late, Invalid)
    assert late.reason is Reason.missing_field


def test_data_may_be_base64() -> None:
    data = base64.b64encode(json.dumps(FULL["gpu"]).encode()).decode()
    assert read("gpu", {**ENVELOPE, "data_base64": data}, []) == expected("gpu")


def test_header_names_are_read_in_any_case() -> None:
    headers: Headers = [(name.upper(), value) for name, value in binary()]
    assert read("jobs", FULL["jobs"], headers) == expected("jobs")


def test_other_headers_change_nothing() -> None:
    headers: Headers = [
        ("content-type", b"application/json"),
        ("traceparent", b"\xff"),
        ("ce_x", b"1"),
        ("a", None),
    ]
    assert read("gpu", FULL["gpu"], headers) == decoded("gpu", FULL["gpu"])


def test_the_type_of_the_envelope_is_not_that_of_the_event() -> None:
    event = read("jobs", {**ENVELOPE, "type": "failed", "data": FULL["jobs"]}, [])
    assert event == expected("jobs")


def test_a_control_in_an_envelope_keeps_only_its_payload() -> None:
    event = read("controls", {**ENVELOPE, "data": FULL["controls"]}, [])
    assert isinstance(event, ControlEvent)
    assert "specversion" not in event.value
    assert "data" not in event.value


BAD: list[tuple[dict[str, Any], Headers, Reason, str]] = [
    ({"specversion": "0.3"}, [], Reason.bad_envelope, 'field `specversion`: got "0.3", expected "1.0"'),
    ({"specversion": 1.0}, [], Reason.bad_envelope, "field `specversion`: got 1.0"),
    ({"specversion": ...}, STRUCTURED, Reason.bad_envelope, "field `specversion`: got null"),
    ({"id": ...}, [], Reason.bad_envelope, "field `id`: got null, expected a string that is not empty"),
    ({"id": ""}, [], Reason.bad_envelope, 'field `id`: got ""'),
    ({"id": 7}, [], Reason.bad_envelope, "field `id`: got 7"),
    ({"source": ...}, [], Reason.bad_envelope, "field `source`: got null"),
    (
        {"time": "yesterday"},
        [],
        Reason.bad_envelope,
        'field `time`: got "yesterday", expected an RFC 3339 time',
    ),
    ({"time": NOW_MS}, [], Reason.bad_envelope, "field `time`: got 1760000000000"),
    ({"time": "1999-12-31T23:59:59Z"}, [], Reason.out_of_range, "field `time_ms`: got 946684799000"),
    ({"time": "2125-01-01T00:00:00Z"}, [], Reason.future, "field `time_ms`"),
    ({"data": ...}, [], Reason.not_an_object, "field `data`: got null, expected one JSON object"),
    ({"data": [FULL["jobs"]]}, [], Reason.not_an_object, "field `data`: got ["),
    ({"data": json.dumps(FULL["jobs"])}, [], Reason.not_an_object, "field `data`: got"),
    (
        {"data": ..., "data_base64": "%%"},
        [],
        Reason.bad_envelope,
        'field `data_base64`: got "%%", expected base64',
    ),
    (
        {"data": ..., "data_base64": 5},
        [],
        Reason.bad_envelope,
        "field `data_base64`: got 5, expected a string",
    ),
    ({"data": ..., "data_base64": "ü"}, [], Reason.bad_envelope, "expected base64"),
    ({"data": ..., "data_base64": "e30"}, [], Reason.bad_envelope, "expected base64"),
    ({"data": ..., "data_base64": "ew=="}, [], Reason.malformed_json, "field `data_base64`: got"),
    ({"data": ..., "data_base64": "W10="}, [], Reason.not_an_object, "field `data`: got []"),
    ({"data": {**FULL["jobs"], "type": "x"}}, [], Reason.unknown_type, 'field `type`: got "x"'),
]


@pytest.mark.parametrize(("changes", "headers", "reason", "detail"), BAD)
def test_a_bad_structured_event(
    changes: dict[str, Any], headers: Headers, reason: Reason, detail: str
) -> None:
    value = {**ENVELOPE, "data": FULL["jobs"], **changes}
    result = read("jobs", {name: item for name, item in value.items() if item is not ...}, headers)
    assert isinstance(result, Invalid)
    assert result.reason is reason
    assert detail in result.detail


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        (binary(specversion="2.0"), 'field `specversion`: got "2.0"'),
        ([header for header in binary() if header[0] != "ce_specversion"], "field `specversion`: got null"),
        ([header for header in binary() if header[0] != "ce_id"], "field `id`: got null"),
        (binary(source=""), 'field `source`: got ""'),
        (binary(time="2025-13-01T00:00:00Z"), 'field `time`: got "2025-13-01T00:00:00Z"'),
        ([*binary(), ("ce_id", b"\xff")], "field `header ce_id`: got"),
    ],
)
def test_a_bad_binary_event(headers: Headers, detail: str) -> None:
    result = read("jobs", FULL["jobs"], headers)
    assert isinstance(result, Invalid)
    assert result.reason is Reason.bad_envelope
    assert detail in result.detail


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2025-10-09T08:53:20Z", NOW_MS),
        ("2025-10-09t10:53:20.1239999+02:00", TIME_MS),
        ("2025-10-09 03:23:20.123-05:30", TIME_MS),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
    ],
)
def test_rfc3339(text: str, ms: int) -> None:
    assert rfc3339_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025-10-09",
        "2025-10-09T08:53:20",
        "2025-10-09T08:53Z",
        "2025-02-29T00:00:00Z",
        "2025-10-09T24:00:00Z",
        "2025-10-09T08:53:61Z",
        "2025-10-09T08:53:20+24:00",
        "2025-10-09T08:53:20+00:60",
        "0000-01-01T00:00:00Z",
        "2025-10-09T08:53:20Z\n",
    ],
)
def test_what_is_no_rfc3339_time(text: str) -> None:
    with pytest.raises(RefusedError):
        rfc3339_ms(text)
