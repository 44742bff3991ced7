from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.refusal import explain_unparsable
from tests.schemas.records import FULL, NOW_MS, REQUIRED, decoded, record


def refused(topic: str, value: object) -> Invalid:
    result = decoded(topic, value)
    assert isinstance(result, Invalid), result
    return result


Case = tuple[str, dict[str, Any], Reason, str]

JOBS: list[Case] = [
    ("jobs", {"type": "paused"}, Reason.unknown_type, 'field `type`: got "paused", expected one of queued,'),
    ("jobs", {"type": 3}, Reason.wrong_type, "field `type`: got 3, expected one of queued,"),
    (
        "jobs",
        {"purchase": "lease"},
        Reason.unknown_value,
        'field `purchase`: got "lease", expected one of on_demand',
    ),
    (
        "jobs",
        {"reason": "rain"},
        Reason.unknown_value,
        'field `reason`: got "rain", expected one of spot_reclaim',
    ),
    (
        "jobs",
        {"id": ...},
        Reason.missing_field,
        "field `id`: got nothing, expected a string that is not empty",
    ),
    ("jobs", {"id": None}, Reason.missing_field, "field `id`: got nothing"),
    ("jobs", {"id": ""}, Reason.out_of_range, 'field `id`: got "", expected a string that is not empty'),
    ("jobs", {"source": ["x"]}, Reason.wrong_type, 'field `source`: got ["x"], expected a string'),
    ("jobs", {"source": ""}, Reason.out_of_range, 'field `source`: got ""'),
    (
        "jobs",
        {"job_id": ""},
        Reason.out_of_range,
        'field `job_id`: got "", expected a string of 1 to 200 bytes',
    ),
    ("jobs", {"job_id": "x" * 201}, Reason.out_of_range, "expected at most 200 bytes of UTF-8"),
    ("jobs", {"job_id": "ü" * 101}, Reason.out_of_range, "expected at most 200 bytes of UTF-8"),
    ("jobs", {"job_id": 7}, Reason.wrong_type, "field `job_id`: got 7, expected a string"),
    (
        "jobs",
        {"attempt": 0},
        Reason.out_of_range,
        "field `attempt`: got 0, expected an integer from 1 to 2147483647",
    ),
    ("jobs", {"attempt": 2**31}, Reason.out_of_range, "field `attempt`: got 2147483648"),
    ("jobs", {"attempt": 1.0}, Reason.wrong_type, "field `attempt`: got 1.0, expected an integer"),
    ("jobs", {"attempt": True}, Reason.wrong_type, "field `attempt`: got true, expected an integer"),
    ("jobs", {"attempt": "1"}, Reason.wrong_type, 'field `attempt`: got "1", expected an integer'),
    (
        "jobs",
        {"time_ms": NOW_MS + 0.5},
        Reason.wrong_type,
        "field `time_ms`: got 1760000000000.5, expected an integer",
    ),
    ("jobs", {"time_ms": float(NOW_MS)}, Reason.wrong_type, "field `time_ms`: got 1760000000000.0"),
    (
        "jobs",
        {"time_ms": "2025-10-09"},
        Reason.wrong_type,
        'field `time_ms`: got "2025-10-09", expected an integer',
    ),
    ("jobs", {"time_ms": 946_684_799_999}, Reason.out_of_range, "from 946684800000 (2000-01-01) on"),
    (
        "jobs",
        {"time_ms": -(10**30)},
        Reason.out_of_range,
        "field `time_ms`: got -1000000000000000000000000000000",
    ),
    (
        "jobs",
        {"time_ms": NOW_MS + 300_001},
        Reason.future,
        "got 1760000300001, expected at most 1760000300000",
    ),
    ("jobs", {"time_ms": 10**30}, Reason.future, "field `time_ms`: got 1000000000000000000000000000000"),
    (
        "jobs",
        {"gpu_count": -1},
        Reason.out_of_range,
        "field `gpu_count`: got -1, expected a number from 0 to 100000",
    ),
    ("jobs", {"gpu_count": 100_000.001}, Reason.out_of_range, "field `gpu_count`: got 100000.001, expected"),
    (
        "jobs",
        {"gpu_count": 0.1234},
        Reason.out_of_range,
        "got 0.1234, expected a number with at most three decimals",
    ),
    ("jobs", {"gpu_count": True}, Reason.wrong_type, "field `gpu_count`: got true, expected a number"),
    ("jobs", {"gpu_count": "8"}, Reason.wrong_type, 'field `gpu_count`: got "8", expected a number'),
    (
        "jobs",
        {"gpu_count": 9},
        Reason.inconsistent,
        "field `gpu_count`: got 9.0, expected the sum of `nodes`, 8.5",
    ),
    ("jobs", {"nodes": {}}, Reason.inconsistent, "expected the sum of `nodes`, 0"),
    (
        "jobs",
        {"nodes": ["a"]},
        Reason.wrong_type,
        'field `nodes`: got ["a"], expected an object of node -> GPUs',
    ),
    (
        "jobs",
        {"nodes": {"a": 1, "b": -2}},
        Reason.out_of_range,
        "field `nodes.b`: got -2, expected float >= 0.0",
    ),
    ("jobs", {"nodes": {"a": 1, "b": None}}, Reason.wrong_type, "field `nodes.b`: got null, expected float"),
    ("jobs", {"nodes": {"": 8}}, Reason.out_of_range, 'field `nodes (a name in it)`: got "", expected'),
    (
        "jobs",
        {"nodes": {"a": 0.0001}},
        Reason.out_of_range,
        "field `nodes.a`: got 0.0001, expected a number with at",
    ),
    (
        "jobs",
        {"nodes": {"a": 60_000, "b": 60_000}, "gpu_count": ...},
        Reason.out_of_range,
        "field `nodes`: got 120000.0, expected at most 100000 GPUs in all",
    ),
    ("jobs", {"cpu_count": 10**11 + 1}, Reason.out_of_range, "field `cpu_count`: got 100000000001, expected"),
    (
        "jobs",
        {"memory_gib": -0.5},
        Reason.out_of_range,
        "field `memory_gib`: got -0.5, expected a number from 0",
    ),
    (
        "jobs",
        {"instance_count": 1.00001},
        Reason.out_of_range,
        "field `instance_count`: got 1.00001, expected",
    ),
    ("jobs", {"team": 5}, Reason.wrong_type, "field `team`: got 5, expected a string"),
    ("jobs", {"labels": {"a": "b", "n": 1}}, Reason.wrong_type, "field `labels.n`: got 1, expected str"),
    ("jobs", {"labels": "x"}, Reason.wrong_type, 'field `labels`: got "x", expected an object of strings'),
    ("jobs", {"holds_gpus": 1}, Reason.wrong_type, "field `holds_gpus`: got 1, expected a boolean"),
    (
        "jobs",
        {"quality": {"loss": "low"}},
        Reason.wrong_type,
        'field `quality.loss`: got "low", expected float',
    ),
    (
        "jobs",
        {"quality": {"loss": True}},
        Reason.wrong_type,
        "field `quality.loss`: got true, expected float",
    ),
    (
        "jobs",
        {"deadline_ms": -1},
        Reason.out_of_range,
        "field `deadline_ms`: got -1, expected an integer of ms",
    ),
    (
        "jobs",
        {"expected_usd_per_hour": -1},
        Reason.out_of_range,
        "got -1, expected a number in [0, 1000000000)",
    ),
    ("jobs", {"expected_usd_per_hour": 10**9}, Reason.out_of_range, "got 1000000000, expected a number in"),
    (
        "jobs",
        {"expected_usd_per_hour": "-1"},
        Reason.out_of_range,
        'got "-1", expected a decimal string in [0,',
    ),
    ("jobs", {"expected_usd_per_hour": "a lot"}, Reason.wrong_type, 'got "a lot", expected a decimal string'),
    ("jobs", {"expected_usd_per_hour": "1.0000000001"}, Reason.out_of_range, "with at most 9 decimals"),
    ("jobs", {"expected_usd_per_hour": "NaN"}, Reason.not_finite, 'field `expected_usd_per_hour`: got "NaN"'),
    ("jobs", {"expected_usd_per_hour": True}, Reason.wrong_type, "field `expected_usd_per_hour`: got true"),
    (
        "jobs",
        {"budget": 100},
        Reason.wrong_type,
        "field `budget`: got 100, expected an object of usd, gpu_hours",
    ),
    (
        "jobs",
        {"budget": {"usd": -1}},
        Reason.out_of_range,
        "field `budget.usd`: got -1, expected a number in [0,",
    ),
    (
        "jobs",
        {"budget": {"usd": []}},
        Reason.wrong_type,
        "field `budget.usd`: got [], expected a number or a decimal",
    ),
    (
        "jobs",
        {"budget": {"gpu_hours": -1}},
        Reason.out_of_range,
        "field `budget.gpu_hours`: got -1, expected a number from 0",
    ),
    (
        "jobs",
        {"budget": {"wall_clock_hours": "1"}},
        Reason.wrong_type,
        'field `budget.wall_clock_hours`: got "1"',
    ),
    (
        "jobs",
        {"budget": {"action": "beg"}},
        Reason.unknown_value,
        'field `budget.action`: got "beg", expected one of notify',
    ),
]

GPU: list[Case] = [
    ("gpu", {"node": ""}, Reason.out_of_range, 'field `node`: got "", expected a string that is not empty'),
    ("gpu", {"job_id": "x" * 201}, Reason.out_of_range, "expected at most 200 bytes of UTF-8"),
    (
        "gpu",
        {"job_id": 5},
        Reason.wrong_type,
        "field `job_id`: got 5, expected a string of at most 200 bytes",
    ),
    ("gpu", {"id": 5}, Reason.wrong_type, "field `id`: got 5, expected a string"),
    (
        "gpu",
        {"interval_ms": 0},
        Reason.out_of_range,
        "field `interval_ms`: got 0, expected an integer from 1 to 3600000",
    ),
    ("gpu", {"interval_ms": 3_600_001}, Reason.out_of_range, "field `interval_ms`: got 3600001, expected"),
    ("gpu", {"interval_ms": 1e3}, Reason.wrong_type, "field `interval_ms`: got 1000.0, expected an integer"),
    (
        "gpu",
        {"gpus": ...},
        Reason.missing_field,
        "field `gpus`: got nothing, expected an array of GPU ids, or one id",
    ),
    (
        "gpu",
        {"gpus": []},
        Reason.out_of_range,
        "field `gpus`: got [], expected an array of 1 to 1024 GPU ids",
    ),
    ("gpu", {"gpus": "GPU-a"}, Reason.wrong_type, 'field `gpus`: got "GPU-a", expected an array'),
    ("gpu", {"gpus": ["a", 1]}, Reason.wrong_type, "field `gpus[1]`: got 1, expected str"),
    ("gpu", {"gpus": ["a"] * 1025}, Reason.oversize, 'field `gpus`: got ["a", "a", "a"'),
    ("gpu", {"gpus": ..., "gpu": ["a"]}, Reason.wrong_type, 'field `gpu`: got ["a"], expected one GPU id'),
    (
        "gpu",
        {"gpus": ..., "gpu": "a"},
        Reason.unequal_lengths,
        "field `util_ratio`: got [0.5, 1.0], expected as many",
    ),
    (
        "gpu",
        {"util_ratio": ...},
        Reason.missing_field,
        "field `util_ratio`: got nothing, expected an array of numbers",
    ),
    ("gpu", {"util_ratio": [0.5]}, Reason.unequal_lengths, "as many values as there are GPUs (2), not 1"),
    ("gpu", {"util_ratio": 0.5}, Reason.unequal_lengths, "as many values as there are GPUs (2), not 1"),
    (
        "gpu",
        {"util_ratio": [0.5, 1.001]},
        Reason.out_of_range,
        "field `util_ratio[1]`: got 1.001, expected float <= 1.0",
    ),
    (
        "gpu",
        {"util_ratio": [-0.1, 1]},
        Reason.out_of_range,
        "field `util_ratio[0]`: got -0.1, expected float >= 0.0",
    ),
    ("gpu", {"util_ratio": [True, 1]}, Reason.wrong_type, "field `util_ratio[0]`: got true, expected float"),
    ("gpu", {"util_ratio": [None, 1]}, Reason.wrong_type, "field `util_ratio[0]`: got null, expected float"),
    (
        "gpu",
        {"util_ratio": 1.5},
        Reason.out_of_range,
        "field `util_ratio`: got 1.5, expected an array of numbers from 0",
    ),
    (
        "gpu",
        {"util_ratio": "50%"},
        Reason.wrong_type,
        'field `util_ratio`: got "50%", expected an array of numbers',
    ),
    (
        "gpu",
        {"sm_ratio": [0.5]},
        Reason.unequal_lengths,
        "field `sm_ratio`: got [0.5], expected as many values",
    ),
    (
        "gpu",
        {"tensor_ratio": [0.5, 2]},
        Reason.out_of_range,
        "field `tensor_ratio[1]`: got 2, expected float <= 1.0",
    ),
    (
        "gpu",
        {"memory_used_mib": [1, 2, 3]},
        Reason.unequal_lengths,
        "field `memory_used_mib`: got [1.0, 2.0, 3.0]",
    ),
    ("gpu", {"memory_used_mib": [1, -2]}, Reason.out_of_range, "field `memory_used_mib[1]`: got -2"),
    ("gpu", {"power_w": [1, 1e300]}, Reason.out_of_range, "field `power_w[1]`: got 1e+300"),
    ("gpu", {"power_w": []}, Reason.unequal_lengths, "field `power_w`: got [], expected as many values"),
    ("gpu", {"purchase": "owned"}, Reason.unknown_value, 'field `purchase`: got "owned", expected one of'),
]

TRAFFIC: list[Case] = [
    (
        "network",
        {"bytes": -1},
        Reason.out_of_range,
        "field `bytes`: got -1, expected an integer from 0 to 9007199254740992",
    ),
    ("network", {"bytes": 2**53 + 1}, Reason.out_of_range, "field `bytes`: got 9007199254740993, expected"),
    ("network", {"bytes": 1.5}, Reason.wrong_type, "field `bytes`: got 1.5, expected an integer"),
    ("network", {"bytes": ...}, Reason.missing_field, "field `bytes`: got nothing, expected an integer"),
    (
        "network",
        {"path": "moon"},
        Reason.unknown_value,
        'field `path`: got "moon", expected one of same_zone',
    ),
    (
        "network",
        {"direction": "up"},
        Reason.unknown_value,
        'field `direction`: got "up", expected one of egress',
    ),
    ("network", {"interval_ms": 31 * 86_400_000 + 1}, Reason.out_of_range, "to 2678400000 (31 days)"),
    ("network", {"interval_ms": -1}, Reason.out_of_range, "field `interval_ms`: got -1, expected"),
    ("network", {"job_id": ""}, Reason.out_of_range, 'field `job_id`: got "", expected a string of 1 to 200'),
    ("network", {"job_id": "ü" * 101}, Reason.out_of_range, "expected at most 200 bytes of UTF-8"),
    (
        "network",
        {"time_ms": NOW_MS * 2},
        Reason.future,
        "field `time_ms`: got 3520000000000, expected at most",
    ),
    (
        "storage",
        {"op": "rename"},
        Reason.unknown_value,
        'field `op`: got "rename", expected one of read, write',
    ),
    ("storage", {"op": ...}, Reason.missing_field, "field `op`: got nothing, expected one of read, write"),
    (
        "storage",
        {"requests": -1},
        Reason.out_of_range,
        "field `requests`: got -1, expected an integer from 0",
    ),
    ("storage", {"requests": 2**53 + 1}, Reason.out_of_range, "field `requests`: got 9007199254740993"),
    (
        "storage",
        {"requests": ..., "bytes": ...},
        Reason.missing_field,
        "field `bytes`: got nothing, expected an integer",
    ),
    (
        "storage",
        {"op": "list", "requests": ...},
        Reason.missing_field,
        "field `requests`: got nothing, expected",
    ),
    ("storage", {"op": "delete", "requests": None}, Reason.missing_field, "which `op` delete requires"),
    ("storage", {"op": "stored", "bytes": ...}, Reason.missing_field, "which `op` stored requires"),
    ("storage", {"job_id": ""}, Reason.out_of_range, 'field `job_id`: got ""'),
    ("storage", {"storage_class": 1}, Reason.wrong_type, "field `storage_class`: got 1, expected a string"),
]

OTHERS: list[Case] = [
    ("nodes", {"type": "gone"}, Reason.unknown_type, 'field `type`: got "gone", expected one of provisioned'),
    ("nodes", {"node": ""}, Reason.out_of_range, 'field `node`: got ""'),
    (
        "nodes",
        {"gpu_count": 100_001},
        Reason.out_of_range,
        "field `gpu_count`: got 100001, expected a number",
    ),
    ("nodes", {"gpu_count": 0.0005}, Reason.out_of_range, "with at most three decimals"),
    ("nodes", {"time_ms": NOW_MS * 2}, Reason.future, "field `time_ms`"),
    (
        "prices",
        {"usd": 2.5},
        Reason.wrong_type,
        "field `usd`: got 2.5, expected a decimal string in [0, 100000)",
    ),
    (
        "prices",
        {"usd": "-0.01"},
        Reason.out_of_range,
        'field `usd`: got "-0.01", expected a decimal string in [0,',
    ),
    (
        "prices",
        {"usd": "100000"},
        Reason.out_of_range,
        'field `usd`: got "100000", expected a decimal string in',
    ),
    ("prices", {"usd": "1.0000000001"}, Reason.out_of_range, 'field `usd`: got "1.0000000001", expected'),
    (
        "prices",
        {"usd": "Infinity"},
        Reason.not_finite,
        'field `usd`: got "Infinity", expected a decimal string',
    ),
    ("prices", {"usd": "1e3"}, Reason.wrong_type, 'field `usd`: got "1e3", expected a decimal string'),
    ("prices", {"usd": ""}, Reason.wrong_type, 'field `usd`: got "", expected a decimal string'),
    (
        "prices",
        {"gpus": 0},
        Reason.out_of_range,
        "field `gpus`: got 0, expected an integer from 1 to 1000000",
    ),
    ("prices", {"gpus": 1_000_001}, Reason.out_of_range, "field `gpus`: got 1000001, expected"),
    (
        "prices",
        {"gpus": ...},
        Reason.inconsistent,
        "field `gpus`: got nothing, expected the GPUs of an instance_hour of gpu",
    ),
    (
        "prices",
        {"component": "tax"},
        Reason.unknown_value,
        'field `component`: got "tax", expected one of gpu',
    ),
    (
        "prices",
        {"per": "fortnight"},
        Reason.unknown_value,
        'field `per`: got "fortnight", expected one of gpu_hour',
    ),
    (
        "prices",
        {"per": "gib"},
        Reason.inconsistent,
        'field `per`: got "gib", expected one of gpu_hour, instance_hour for',
    ),
    (
        "prices",
        {"effective_ms": -1},
        Reason.out_of_range,
        "field `effective_ms`: got -1, expected an integer of ms",
    ),
    ("prices", {"effective_ms": 10**14}, Reason.out_of_range, "field `effective_ms`: got 100000000000000"),
    (
        "prices",
        {"effective_ms": 0.5},
        Reason.wrong_type,
        "field `effective_ms`: got 0.5, expected an integer",
    ),
    ("prices", {"sku": ""}, Reason.out_of_range, 'field `sku`: got ""'),
    ("prices", {"region": 1}, Reason.wrong_type, "field `region`: got 1, expected a string"),
    ("prices", {"path": "moon"}, Reason.unknown_value, 'field `path`: got "moon"'),
    ("prices", {"op": "moon"}, Reason.unknown_value, 'field `op`: got "moon"'),
    ("prices", {"direction": "moon"}, Reason.unknown_value, 'field `direction`: got "moon"'),
    ("prices", {"purchase": "moon"}, Reason.unknown_value, 'field `purchase`: got "moon"'),
    ("prices", {"time_ms": NOW_MS * 2}, Reason.future, "field `time_ms`"),
    (
        "controls",
        {"kind": "wish"},
        Reason.unknown_value,
        'field `kind`: got "wish", expected one of owner, budget',
    ),
    ("controls", {"name": 5}, Reason.wrong_type, "field `name`: got 5, expected a string that is not empty"),
    ("controls", {"usd": "-5"}, Reason.out_of_range, 'field `usd`: got "-5", expected a decimal string'),
    (
        "controls",
        {"gpu_hours": -5},
        Reason.out_of_range,
        "field `gpu_hours`: got -5, expected a number from 0",
    ),
    (
        "controls",
        {"usd_per_hour": -5},
        Reason.out_of_range,
        "field `usd_per_hour`: got -5, expected a number",
    ),
    ("controls", {"period": "eon"}, Reason.unknown_value, 'field `period`: got "eon", expected one of month'),
    (
        "controls",
        {"action": "beg"},
        Reason.unknown_value,
        'field `action`: got "beg", expected one of notify',
    ),
    ("controls", {"until_ms": "tomorrow"}, Reason.wrong_type, 'field `until_ms`: got "tomorrow", expected'),
    ("controls", {"time_ms": NOW_MS * 2}, Reason.future, "field `time_ms`"),
]


@pytest.mark.parametrize(("topic", "changes", "reason", "detail"), [*JOBS, *GPU, *TRAFFIC, *OTHERS])
def test_refused_for_one_field(topic: str, changes: dict[str, Any], reason: Reason, detail: str) -> None:
    invalid = refused(topic, record(topic, **changes))
    assert invalid.reason is reason
    assert detail in invalid.detail
    assert len(invalid.detail) < 400


@pytest.mark.parametrize(("topic", "field"), [(topic, name) for topic in FULL for name in REQUIRED[topic]])
@pytest.mark.parametrize("absent", [None, ...])
def test_every_required_field_is_missed(topic: str, field: str, absent: object) -> None:
    invalid = refused(topic, record(topic, **{field: absent}))
    assert invalid.reason is Reason.missing_field
    assert invalid.detail.startswith(f"field `{field}`: got nothing, expected ")


def raw(topic: str, field: str, literal: str) -> bytes:
    """The record of a topic with one value as it is literally written in JSON."""
    text = json.dumps(record(topic, **{field: "@@"}), ensure_ascii=False)
    assert text.count('"@@"') == 1
    return text.replace('"@@"', literal).encode()


@pytest.mark.parametrize("topic", sorted(FULL))
@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_named(topic: str, literal: str) -> None:
    field = {"gpu": "util_ratio", "prices": "effective_ms"}.get(topic, "time_ms")
    written = f"[0.5, {literal}]" if topic == "gpu" else literal
    invalid = refused(topic, raw(topic, field, written))
    assert invalid.reason is Reason.not_finite
    path = "util_ratio[1]" if topic == "gpu" else field
    sign = "-" if literal.startswith("-") else ""
    shown = "NaN" if literal == "NaN" else f"{sign}Infinity"
    assert invalid.detail == f"field `{path}`: got {shown}, expected a finite number of JSON"


def test_a_number_that_is_not_finite_in_depth_is_named() -> None:
    invalid = refused("jobs", raw("jobs", "quality", '{"loss": NaN}'))
    assert invalid.detail == "field `quality.loss`: got NaN, expected a finite number of JSON"


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
    refusal = explain_unparsable(value, RecursionError())
    assert refusal.invalid.reason is Reason.malformed_json
    assert "expected less deep nesting" in refusal.invalid.detail


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


def test_a_long_value_is_shortened() -> None:
    invalid = refused("jobs", record("jobs", purchase="x" * 100_000))
    shown = invalid.detail.removeprefix("field `purchase`: got ").split(", expected")[0]
    assert shown == '"' + "x" * 78 + "…"


def test_a_value_with_quotes_of_an_error_message_in_it_deceives_nobody() -> None:
    invalid = refused("jobs", record("jobs", purchase="z - at `$.team`"))
    assert invalid.reason is Reason.unknown_value
    assert invalid.detail.startswith("field `purchase`: got ")
