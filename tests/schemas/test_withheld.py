"""What is kept of a refused record of `controls`: names of fields, and no value that may be an address."""

from __future__ import annotations

import json

import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.redaction import is_secret, is_withheld, kept_raw, withheld
from tests.schemas.records import NOW_MS

SECRET = "https://hooks.example.com/services/T000/B000/s3cr3t"
OWNER = {"kind": "owner", "name": "ada", "slak": SECRET}


def test_names_of_fields_stay_and_values_go() -> None:
    raw = kept_raw("controls", "wrong_type", json.dumps(OWNER).encode())
    assert json.loads(raw) == {
        "withheld": True,
        "bytes": len(json.dumps(OWNER)),
        "fields": {"kind": "owner", "name": "ada", "slak": "***"},
    }
    assert is_withheld(raw)
    assert not is_withheld(json.dumps(OWNER).encode())


CONTROLS: list[bytes] = [
    json.dumps(value).encode()
    for value in (
        OWNER,
        {**OWNER, "name": SECRET},
        {**OWNER, "kind": SECRET},
        {SECRET: "owner", "kind": "owner"},
        {"kind": "owner", "name": {"first": SECRET}, "value": {"value": {"x": SECRET}}, "data": [SECRET]},
        {"specversion": "1.0", "id": "1", "source": SECRET, "time": SECRET, "data": OWNER},
        {"specversion": SECRET, "data": OWNER},
        [OWNER],
        SECRET,
        json.dumps(OWNER),
        {**OWNER, "id": "1", "source": "s", "time_ms": NOW_MS, "match": {SECRET: "x" * 300}},
        {**OWNER, "id": "1", "source": "s", "time_ms": NOW_MS, SECRET: "x" * 300},
        {**OWNER, "id": "1", "source": "s", "time_ms": NOW_MS, "match": {"a": SECRET * 30}},
        {**OWNER, "id": "1", "source": "s", "time_ms": NOW_MS, "usd": SECRET, "from_ms": SECRET},
    )
] + [
    json.dumps(OWNER).encode()[:-1],
    b'{"a":' * 300 + SECRET.encode(),
    b"\xff" + SECRET.encode(),
    SECRET.encode(),
]


@pytest.mark.parametrize("value", CONTROLS)
@pytest.mark.parametrize(
    "headers", [(), (("ce_specversion", b"1.0"),), (("ce_id", b"\xff" + SECRET.encode()),)]
)
def test_no_value_of_a_control_is_in_the_refusal_or_in_what_is_kept(
    value: bytes, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    result = decode("controls", value, headers, NOW_MS)
    assert isinstance(result, Invalid)
    kept = kept_raw("controls", "wrong_type", value) + result.detail.encode()
    assert b"s3cr3t" not in kept
    assert b"hooks" not in kept
    assert len(kept) < 1_500


@pytest.mark.parametrize("topic", ["jobs", "prices", "replay"])
@pytest.mark.parametrize(
    "value",
    [
        json.dumps(OWNER).encode(),
        json.dumps({"slack": SECRET}).encode(),
        json.dumps({"specversion": "1.0", "data": {"webhook": SECRET}}).encode(),
        json.dumps(json.dumps(OWNER)).encode(),
        json.dumps({"topic": "controls", "value": {"x": SECRET}}).encode()[:-1],
        json.dumps({"topic": "trainfare.controls", "value": SECRET}).encode(),
        json.dumps({"topic": "control", "value": {"x": SECRET}}).encode(),
        b"oops https://hooks.slack.com/services/s3cr3t",
    ],
)
def test_a_control_in_the_wrong_place_is_known_by_its_looks(topic: str, value: bytes) -> None:
    assert b"s3cr3t" not in kept_raw(topic, "missing_field", value)
    result = decode(topic, value, (), NOW_MS)
    assert isinstance(result, Invalid)
    assert "s3cr3t" not in result.detail


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{oops",
        b'{"job_id":"a","owner":"ada","labels":{"kind":"eval","control":"1"}}',
        b'{"topic":"jobs","value":{"owner":"slack-team","team":"webhooks"}}',
        b'{"kind":"queued","owner":"ada"}',
    ],
)
def test_other_records_are_kept_as_they_are(value: bytes) -> None:
    assert not is_secret("jobs", value)
    assert kept_raw("jobs", "missing_field", value) == value


@pytest.mark.parametrize("reason", ["future", "too_late"])
def test_an_event_that_is_refused_for_its_time_alone_is_whole(reason: str) -> None:
    event = b'{"id":"1","job_id":"a","labels":{"slack":"#ml"}}'
    assert kept_raw("jobs", reason, event) == event
    assert is_withheld(kept_raw("jobs", "missing_field", event))
    assert is_withheld(kept_raw("controls", reason, event))


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", [b'"', b"\\", b'"kind"', b'"topic": ', b'"slack', b"controls", b'"a-.', b"[", b'{"a":']
)
def test_no_bytes_take_long(piece: bytes) -> None:
    value = (b"owner" + piece * 2**20)[: 2**20]
    for _ in range(20):
        is_secret("jobs", value)
    assert len(withheld(value)) < 100
