"""OpenTelemetry's requests with bad parts: each costs itself only, whatever its form, in JSON and in Protocol Buffers."""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.protobuf import fields_of
from schemas.wire_types import MAX_ENTRIES
from streams.web.ingest_body import EVENTS_MAX
from streams.web.otlp import json_form, protobuf_form
from streams.web.otlp.endpoint import PROTOBUF
from streams.web.otlp.telemetry import PARTS_MAX, Faults
from tests.web.otlp.test_otlp import JOB, T0_MS, TRACES, attribute, sent, span, traces, values
from tests.web.serving import serving
from tests.web.test_ingest import WRITE, Log
from tests.web.test_scopes import bearer

GOOD_JOB: Final = "good"
DIGITS: Final = "9" * 400
T0_NANO: Final = T0_MS * 10**6


def good_span(number: int = 1) -> dict[str, Any]:
    return span({"trainfare.job.id": GOOD_JOB, "trainfare.job.gpus": 1}, spanId=f"{number:016x}")


def point(value: object = 0.5, job: str = "run-7", **others: Any) -> dict[str, Any]:
    return {
        "timeUnixNano": str(T0_NANO),
        "asDouble": value,
        "attributes": [attribute("trainfare.job.id", job)],
        **others,
    }


def metrics(*points: Any, name: str = "trainfare.quality.loss", kind: str = "gauge") -> bytes:
    return wrapped({"name": name, kind: {"dataPoints": list(points)}})


def wrapped(*listed: Any) -> bytes:
    return json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": list(listed)}]}]}).encode()


def partial(answer: bytes) -> dict[str, str]:
    found: dict[str, str] = json.loads(answer).get("partialSuccess", {})
    return found


# -- points --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"asDouble": None, "asInt": int(DIGITS)}, "number of more than 64 bits"),
        ({"asDouble": None, "asInt": DIGITS}, "is no whole number"),
        ({"asDouble": None, "asInt": 2**63}, "is no whole number of 64 bits"),
        ({"asDouble": None, "asInt": 0.5}, "is no whole number"),
        ({"asDouble": None, "asInt": True}, "is no whole number"),
        ({"asDouble": int(DIGITS)}, "number of more than 64 bits"),
        ({"asDouble": DIGITS}, "inf is no finite number"),
        ({"asDouble": "NaN"}, "nan is no finite number"),
        ({"asDouble": float("-inf")}, "-inf is no finite number"),
        ({"asDouble": "1_0"}, "is no number"),
        ({"asDouble": [1]}, "a list is no number"),
        ({"timeUnixNano": DIGITS}, "is no whole number"),
        ({"timeUnixNano": int(DIGITS)}, "more than 64 bits"),
        ({"timeUnixNano": -1}, "is no time"),
        ({"timeUnixNano": "12345678901234567890123"}, "is no whole number"),
        ({"timeUnixNano": str((T0_MS + 10**9) * 10**6)}, "time_ms"),
        ({"timeUnixNano": {}}, "is no whole number"),
        ({"attributes": 5}, "attributes: expected a list"),
        ({"attributes": [{"key": "trainfare.job.id", "value": {"arrayValue": {"values": []}}}]}, "is a list or the like"),
        ({"attributes": [attribute("trainfare.job.id", "x" * 201)]}, "job_id"),
        ({"attributes": [attribute("trainfare.job.id", "a"), attribute("trainfare.job.attempt", 2**40)]}, "attempt"),
        ({"attributes": [{"key": "trainfare.job.id", "value": {"stringValue": "\ud800"}}]}, "is no UTF-8"),
        ({"attributes": [{"key": "trainfare.job.id", "value": {"doubleValue": "NaN"}}]}, "no finite number"),
    ],
)  # fmt: skip
def test_a_bad_point_is_rejected_and_the_others_are_taken(change: dict[str, Any], words: str) -> None:
    """Each before the good one, of the same metric, and for a good point of the same job."""
    bad = point(job=GOOD_JOB, **change) if "attributes" not in change else point(**change)
    status, answer, _, log = sent(metrics(bad, point(job=GOOD_JOB)), path="/v1/metrics")
    assert status == 200, answer
    assert partial(answer)["rejectedDataPoints"] == "1"
    assert words in partial(answer)["errorMessage"]
    assert [(each["job_id"], each["quality"]) for each in values(log)] == [(GOOD_JOB, {"loss": 0.5})]


def test_a_point_of_the_future_does_not_cost_the_other_values_of_its_job() -> None:
    late = point(9.0, GOOD_JOB, timeUnixNano=str((T0_MS + 10**9) * 10**6))
    listed = [
        {"name": f"trainfare.{name}", "gauge": {"dataPoints": points}}
        for name, points in (
            ("quality.loss", [point(0.5, GOOD_JOB), late]),
            ("quality.accuracy", [point(0.75, GOOD_JOB)]),
            (f"quality.{'n' * 300}", [point(1.0, GOOD_JOB)]),
        )
    ]
    status, answer, _, log = sent(wrapped(*listed), path="/v1/metrics")
    assert (status, partial(answer)["rejectedDataPoints"]) == (200, "2")
    assert [each["quality"] for each in values(log)] == [{"loss": 0.5, "accuracy": 0.75}]


def test_more_values_than_an_event_may_have_are_several_events() -> None:
    listed = [
        {"name": f"trainfare.quality.m{number}", "gauge": {"dataPoints": [point(float(number))]}}
        for number in range(MAX_ENTRIES + 1)
    ]
    status, answer, _, log = sent(wrapped(*listed), path="/v1/metrics")
    assert (status, answer) == (200, b"{}")
    found = [each["quality"] for each in values(log)]
    assert [len(each) for each in found] == [MAX_ENTRIES, 1]
    assert {name: value for each in found for name, value in each.items()} == {
        f"m{number}": float(number) for number in range(MAX_ENTRIES + 1)
    }


def test_metrics_of_others_are_not_looked_at() -> None:
    others = [
        {"name": "http.server.duration", "gauge": {"dataPoints": [5, {"asInt": int(DIGITS)}]}},
        {"name": "http.server.errors", "sum": 5},
        {"name": 5},
    ]
    status, answer, _, log = sent(wrapped(*others), path="/v1/metrics")
    assert (status, answer, log.records) == (200, b"{}", [])


# -- spans ---------------------------------------------------------------------------------------------------

BAD_SPANS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"traceId": "xyz"}, "is no id of 32 hexadecimal digits"),
    ({"traceId": None}, "is no id of 32 hexadecimal digits"),
    ({"spanId": 5}, "is no id of 16 hexadecimal digits"),
    ({"endTimeUnixNano": "soon"}, "is no whole number"),
    ({"endTimeUnixNano": "9" * 5000}, "is no whole number"),
    ({"endTimeUnixNano": -5}, "is no time"),
    ({"startTimeUnixNano": int(DIGITS)}, "more than 64 bits"),
    ({"startTimeUnixNano": [1]}, "is no whole number"),
    ({"status": 5}, "status: expected an object"),
    ({"status": {"code": [2]}}, "status: expected an object"),
    ({"attributes": "none"}, "attributes: expected a list"),
    ({"attributes": [{"key": "trainfare.job.id", "value": {"kvlistValue": {}}}]}, "is a list or the like"),
    ({"attributes": [{"key": "trainfare.job.id", "value": {"stringValue": 5}}]}, "is no stringValue"),
    ({"attributes": [attribute("trainfare.job.id", "a\0b")]}, "has a NUL byte"),
    (
        {
            "attributes": [
                attribute("trainfare.job.id", "a"),
                {"key": "trainfare.job.gpus", "value": {"intValue": DIGITS}},
            ]
        },
        "trainfare.job.gpus",
    ),
    (
        {
            "attributes": [
                attribute("trainfare.job.id", "a"),
                {"key": "trainfare.job.attempt", "value": {"arrayValue": {}}},
            ]
        },
        "trainfare.job.attempt",
    ),
]


@pytest.mark.parametrize(("change", "words"), BAD_SPANS)
def test_a_bad_span_is_rejected_and_the_others_are_taken(change: dict[str, Any], words: str) -> None:
    status, answer, _, log = sent(traces({**span(JOB), **change}, good_span()))
    assert status == 200, answer
    assert partial(answer)["rejectedSpans"] == "1"
    assert words in partial(answer)["errorMessage"]
    assert [(each["job_id"], each["type"]) for each in values(log)] == [
        (GOOD_JOB, "started"),
        (GOOD_JOB, "completed"),
    ]


@pytest.mark.parametrize(
    "change", [change for change, _ in BAD_SPANS if "attributes" not in change]
)  # fmt: skip
def test_what_is_wrong_with_a_span_of_others_is_not_ours_to_say(change: dict[str, Any]) -> None:
    status, answer, _, log = sent(traces({**span({"http.method": "GET"}), **change}, good_span()))
    assert (status, answer, len(log.records)) == (200, b"{}", 2)


@pytest.mark.parametrize(
    "odd",
    [
        {"key": "big", "value": {"intValue": int(DIGITS)}},
        {"key": "nested", "value": {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {}}}]}}},
        {"key": "wrong", "value": {"stringValue": [1]}},
        {"key": "cut", "value": {"stringValue": "\ud83d"}},
        {"key": "empty", "value": {}},
    ],
)
def test_odd_attributes_of_others_do_not_matter(odd: dict[str, Any]) -> None:
    held = good_span()
    held["attributes"].insert(0, odd)
    status, answer, _, log = sent(traces(held, resource={"a": 1}))
    assert (status, answer, len(log.records)) == (200, b"{}", 2)


def test_a_detail_that_cannot_be_read_is_left_out_and_said() -> None:
    """The end of a job matters more than a loss that is none."""
    held = good_span()
    held["attributes"] += [
        {"key": "trainfare.quality.loss", "value": {"doubleValue": "NaN"}},
        {"key": f"trainfare.quality.{'n' * 300}", "value": {"doubleValue": 1.0}},
        {"key": "trainfare.progress.step", "value": {"stringValue": "many"}},
        {"key": "trainfare.job.team", "value": {"arrayValue": {}}},
        {"key": "trainfare.quality.accuracy", "value": {"doubleValue": 0.5}},
        5,
    ]
    status, answer, _, log = sent(traces(held))
    started, completed = values(log)
    assert (status, partial(answer)["rejectedSpans"]) == (200, "0")
    assert "left out" in partial(answer)["errorMessage"]
    assert completed["quality"] == {"accuracy": 0.5}
    assert "progress" not in completed
    assert "team" not in started


def test_a_span_with_two_bad_events_is_one_span() -> None:
    late = span(JOB, startTimeUnixNano="0", endTimeUnixNano=str((T0_MS + 10**9) * 10**6))
    _, answer, _, log = sent(traces(late, good_span()))
    assert (partial(answer)["rejectedSpans"], len(log.records)) == ("1", 2)


def test_more_events_than_a_request_may_have_are_rejected_beyond() -> None:
    begun = {"trainfare.job.id": "a", "trainfare.job.event": "heartbeat"}
    body = gzip.compress(
        json.dumps(
            {"resourceSpans": [{"scopeSpans": [{"spans": [
                {"traceId": "a" * 32, "spanId": f"{number:016x}", "endTimeUnixNano": T0_NANO,
                 "attributes": [attribute(*each) for each in begun.items()]}
                for number in range(EVENTS_MAX + 2)
            ]}]}]}
        ).encode()
    )  # fmt: skip
    status, answer, _, log = sent(body, Content_Encoding="gzip")
    assert (status, len(log.records)) == (200, EVENTS_MAX)
    assert partial(answer)["rejectedSpans"] == "2"
    assert "send fewer at once" in partial(answer)["errorMessage"]


def test_spans_of_others_may_be_more() -> None:
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [*[{}] * PARTS_MAX, good_span()]}]}]})
    faults = Faults()
    assert json_form.spans_of(body.encode(), faults) == []
    assert (faults.rejected, faults.reasons["oversize"]) == (3, 3)
    assert len(json_form.spans_of(body.replace("{},", "", 3).encode())) == 1
    faults = Faults()
    assert protobuf_form.spans_of(field(1, b"") * (PARTS_MAX + 5), faults) == []
    assert (faults.rejected, faults.reasons["oversize"]) == (5, 5)


# -- JSON that is odd as a whole -------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [200, 2_000, 200_000])
def test_values_that_are_nested_deeply_cost_nothing_else(depth: int) -> None:
    deep = "[" * depth + '"]}"' + "]" * depth
    body = traces(good_span()).decode()
    nested = body.replace('"attributes": [', '"odd": ' + deep + ', "attributes": [')
    assert nested != body
    status, answer, _, log = sent(nested.encode())
    assert (status, answer, len(log.records)) == (200, b"{}", 2)


def test_nesting_without_an_end_is_no_json() -> None:
    assert sent(b'{"resourceSpans": ' + b"[" * 200_000)[0] == 400
    assert sent(b'{"resourceSpans": ' + b"[" * 200_000 + b"]" * 199_000)[0] == 400


def test_text_that_is_no_utf8_costs_only_what_needs_it() -> None:
    others = traces(span({"note": "BYTES"}), good_span()).replace(b"BYTES", b"\xff\xfe")
    assert sent(others)[0::3][0] == 200
    assert len(sent(others)[3].records) == 2
    ours = traces(span({"trainfare.job.id": "BYTES"}), good_span()).replace(b"BYTES", b"\xff\xfe")
    status, answer, _, log = sent(ours)
    assert (status, partial(answer)["rejectedSpans"], len(log.records)) == (200, "1", 2)


# -- Protocol Buffers --------------------------------------------------------------------------------------------


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def text_attribute(key: bytes, value: bytes) -> bytes:
    return field(1, key) + field(2, value)


A_JOB: Final = text_attribute(b"trainfare.job.id", field(1, b"bad"))


@pytest.mark.parametrize(
    "bad",
    [
        field(9, A_JOB),  # no ids
        field(1, b"short") + field(9, A_JOB),
        field(1, bytes(16)) + field(2, bytes(9)) + field(9, A_JOB),
        field(1, bytes(16)) + field(2, bytes(8)) + field(9, A_JOB) + b"\x0a\xff",  # cut
        field(1, bytes(16)) + field(2, bytes(8)) + field(9, A_JOB) + field(15, b"\xff"),
        field(1, bytes(16))
        + field(2, bytes(8))
        + field(9, text_attribute(b"trainfare.job.id", field(5, b""))),
        field(1, bytes(16))
        + field(2, bytes(8))
        + field(9, text_attribute(b"trainfare.job.id", field(1, b"\xff"))),
        field(1, bytes(16)) + field(2, bytes(8)) + field(9, field(1, b"trainfare.job.id") + field(2, b"\x0a\xff")),
        b"\x03\x04",
    ],
)  # fmt: skip
def test_a_bad_span_in_protobuf_costs_itself(bad: bytes) -> None:
    before, after = field(1, field(2, field(2, bad))), field(1, field(2, field(2, bad)) + b"\xff")
    status, body, _, log = sent(before + TRACES + after, PROTOBUF)
    assert (status, len(log.records)) == (200, 6)
    ((_, answer),) = fields_of(body)
    assert isinstance(answer, bytes)
    assert dict(fields_of(answer))[1] == 3  # both spans, and what cannot be read after the second


@pytest.mark.parametrize(
    "bad",
    [
        field(7, A_JOB) + b"\x31\x00",
        field(7, A_JOB) + b"\x21" + (0x7FF8 << 48).to_bytes(8, "little"),  # NaN
        field(7, A_JOB) + b"\x19" + b"\xff" * 8 + b"\x21" + bytes(8),  # in the year 2554
        field(7, text_attribute(b"trainfare.job.id", field(6, b""))) + b"\x21" + bytes(8),
    ],
)
def test_a_bad_point_in_protobuf_costs_itself(bad: bytes) -> None:
    good = field(7, A_JOB) + b"\x19" + T0_NANO.to_bytes(8, "little") + b"\x21" + bytes(8)
    metric = field(1, b"trainfare.quality.loss") + field(5, field(1, bad) + field(1, good))
    status, body, _, log = sent(field(1, field(2, field(2, metric))), PROTOBUF, path="/v1/metrics")
    assert (status, len(log.records)) == (200, 1)
    ((_, answer),) = fields_of(body)
    assert isinstance(answer, bytes)
    assert dict(fields_of(answer))[1] == 1


# -- anything ----------------------------------------------------------------------------------------------------

ODD: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([int(DIGITS), -int(DIGITS), 2**63, 2**64, -1, DIGITS, "-" + DIGITS, "NaN", "1e400", "\ud800"])
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
SPANS_REQUEST: Final = json.loads(traces(span(JOB, events=[{"name": "trainfare.checkpoint"}]), resource=JOB))
POINTS_REQUEST: Final = json.loads(metrics(point(), kind="sum"))


def places(value: Any) -> list[tuple[Any, ...]]:
    """The paths to all that is in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, each in inner for path in [(key,), *((key, *rest) for rest in places(each))]]


@st.composite
def mutated(draw: st.DrawFn, request: dict[str, Any]) -> dict[str, Any]:
    """A request of which some parts are something else."""
    found = copy.deepcopy(request)
    for _ in range(draw(st.integers(1, 3))):
        # The list of all stays one: without it nothing is OTLP.
        path = draw(st.sampled_from([path for path in places(found) if len(path) > 1]))
        holder = found
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = draw(ODD)
    return found


@contextmanager
def running(log: Log) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    started, stop = threading.Event(), asyncio.Event()
    address: list[str] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(None, events=log, write_token=WRITE) as client:
            address.append(client.server.url)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(30)
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize(
    ("path", "name", "request_", "good"),
    [
        ("/v1/traces", "resourceSpans", SPANS_REQUEST, json.loads(traces(good_span()))),
        ("/v1/metrics", "resourceMetrics", POINTS_REQUEST, json.loads(metrics(point(job=GOOD_JOB)))),
    ],
)
def test_whatever_stands_beside_them_good_parts_are_taken(
    path: str, name: str, request_: dict[str, Any], good: dict[str, Any]
) -> None:
    log = Log()
    pool = urllib3.PoolManager(retries=False)
    with running(log) as address:

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(mutated(request_), st.booleans())
        def check(bad: dict[str, Any], is_first: bool) -> None:
            parts = [bad[name], good[name]] if is_first else [good[name], bad[name]]
            body = json.dumps({name: [*parts[0], *parts[1]]}).encode()
            log.records.clear()
            headers = {"Content-Type": "application/json", **bearer(WRITE)}
            answer = pool.request("POST", address + path, body=body, headers=headers)
            assert answer.status == 200, (answer.data, body)
            assert GOOD_JOB in {each["job_id"] for each in values(log)}, body

        check()
