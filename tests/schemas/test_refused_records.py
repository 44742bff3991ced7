from __future__ import annotations

import json
import re

import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.refusal import explain_unparsable
from tests.schemas.records import FULL, NOW_MS, decoded, record, refused

DEEP = b"[" * 400_000

MALFORMED: list[tuple[bytes, Reason, str]] = [
    (b"", Reason.malformed_json, 'record: got "", expected one JSON object'),
    (b"   ", Reason.malformed_json, "expected one JSON object"),
    (b"{", Reason.malformed_json, 'record: got "{", expected one JSON object'),
    (b"{} {}", Reason.malformed_json, "trailing characters"),
    (b'{"a":1,}', Reason.malformed_json, "trailing comma"),
    (b"{'a':1}", Reason.malformed_json, "record: got \"{'a':1}\", expected one JSON object"),
    (b"\xef\xbb\xbf{}", Reason.malformed_json, "invalid character (byte 0)"),
    ('{"a":1}'.encode("utf-16"), Reason.malformed_json, "got byte 0xff at position 0, expected UTF-8"),
    (b"[]", Reason.not_an_object, "record: got [], expected one JSON object"),
    (b"[{}]", Reason.not_an_object, "record: got [{}], expected one JSON object"),
    (b"null", Reason.not_an_object, "record: got null, expected one JSON object"),
    (b'"text"', Reason.not_an_object, 'record: got "text", expected one JSON object'),
    (b"12", Reason.not_an_object, "record: got 12, expected one JSON object"),
    (b"NaN", Reason.not_finite, "field `record`: got NaN"),
    (b"\x00", Reason.malformed_json, "expected one JSON object"),
    (b'{"a":"\x00"}', Reason.malformed_json, "invalid character"),
    (b'{"a":"\xff"}', Reason.malformed_json, "got byte 0xff at position 6, expected UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', Reason.malformed_json, "got byte 0xed at position 6, expected UTF-8"),
    (b'{"source":"\\ud800"}', Reason.malformed_json, "expected one JSON object"),
    (b'{"source":"\\udc00"}', Reason.malformed_json, "expected one JSON object"),
    (DEEP, Reason.malformed_json, "got more levels of nesting, expected at most 256"),
    (
        b'{"a":' + DEEP + b"]" * len(DEEP) + b"}",
        Reason.malformed_json,
        "got more levels of nesting, expected at most 256",
    ),
    (b'{"a":' * 100_000, Reason.malformed_json, "got more levels of nesting, expected at most 256"),
    (b'{"time_ms":' + b"9" * 5_000 + b"}", Reason.out_of_range, "expected integers of 64 bits"),
    (b'{"time_ms":"x", oops}', Reason.malformed_json, "expected one JSON object"),
    (b"x" * 2**20, Reason.malformed_json, "expected one JSON object"),
    (b"x" * (2**20 + 1), Reason.oversize, "record: got 1048577 bytes, expected at most 1048576"),
]


@pytest.mark.parametrize("topic", sorted(FULL))
@pytest.mark.parametrize(("value", "reason", "detail"), MALFORMED)
def test_refused_as_a_whole(topic: str, value: bytes, reason: Reason, detail: str) -> None:
    invalid = refused(topic, value)
    assert invalid.reason is reason
    if (
        topic == "controls" and "got more levels" not in detail and reason is not Reason.oversize
    ):  # no value is shown
        detail = re.sub(r"got .*?(, expected|$)", r"got ***\1", detail)
    assert detail in invalid.detail
    assert len(invalid.detail) < 400


@pytest.mark.parametrize(("levels", "valid"), [(255, True), (256, False)])
def test_the_depth_of_nesting_is_judged_by_a_limit_and_not_by_the_call_stack(
    levels: int, valid: bool
) -> None:
    nested: object = '[{"'  # brackets in a string are none
    for _ in range(levels):
        nested = [nested]
    assert isinstance(decoded("jobs", record("jobs", comment=nested)), Invalid) != valid
    many_side_by_side: list[list[object]] = [[]] * 5_000
    assert not isinstance(decoded("jobs", record("jobs", comment=many_side_by_side)), Invalid)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", [b'\\"', b'"', b'"\\', b"\\", b'[{"', b'{"a":', b"[1,", b"-", b"9", b'{"a":[],"b":']
)
def test_no_bytes_take_long(piece: bytes) -> None:
    for prefix in (b"", b'{"a":"' + b"[" * 300, b'{"labels":{'):
        value = (prefix + piece * 2**20)[: 2**20]
        assert isinstance(decoded("jobs", value), Invalid)


@pytest.mark.parametrize("value", [DEEP, b"{}"])
def test_a_parser_that_runs_out_of_stack_is_explained(value: bytes) -> None:
    invalid = explain_unparsable(value, RecursionError()).invalid(secret=False)
    assert invalid.reason is Reason.malformed_json
    assert "expected less deep nesting" in invalid.detail


def test_invalid_utf_8_in_a_field_that_is_ignored_is_refused_too() -> None:
    value = json.dumps(record("jobs", comment="@")).encode().replace(b'"@"', b'"\xff"')
    assert refused("jobs", value).reason is Reason.malformed_json


@pytest.mark.parametrize("topic", sorted(set(FULL) - {"controls"}))
def test_a_tombstone_is_no_event(topic: str) -> None:
    result = decode(topic, None, (), NOW_MS)
    assert isinstance(result, Invalid)
    assert result.reason is Reason.not_an_object


@pytest.mark.parametrize("topic", ["", "job", "trainfare.jobs", "JOBS"])
@pytest.mark.parametrize("value", [None, b"{}"])
def test_an_unknown_topic_is_refused(topic: str, value: bytes | None) -> None:
    result = decode(topic, value, (), NOW_MS)
    assert isinstance(result, Invalid)
    assert result.reason is Reason.unknown_topic
    assert result.detail == (
        f'topic: got "{topic}", expected one of jobs, gpu, network, storage, nodes, prices, controls'
    )
