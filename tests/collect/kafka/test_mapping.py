"""What a rule makes of a record, and what it says of one that it cannot use."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.collect.kafka.mapping import Mapped, RecordMap
from tests.collect.kafka.world import TOPIC, of_rule, options

TIME_MS = 1_780_308_000_000
FIELDS = {"job_id": "job", "time_ms": "at", "type": "what"}
RECORD = {"id": "e1", "job": "a", "at": TIME_MS, "what": "started"}


def mapped(record: Any, fields: dict[str, Any], **rule: Any) -> Mapped:
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    return RecordMap(of_rule({"fields": {**FIELDS, **fields}, **rule})).of_record("t", text)


def made(value: Any, field: Any, name: str = "gpu_count", **rule: Any) -> Any:
    """Return what becomes of a value `v` in a field."""
    events, faults = mapped({**RECORD, "v": value}, {name: field}, **rule)
    assert not faults
    return events[0].value.get(name)


def fault(value: Any, field: Any, name: str = "gpu_count", **rule: Any) -> str:
    events, faults = mapped({**RECORD, "v": value}, {name: field}, **rule)
    assert not events
    return str(faults[0])


@pytest.mark.parametrize(
    ("unit", "value", "wanted"),
    [
        ("s->ms", 1_780_308_000.1234, 1_780_308_000_123),
        ("s->ms", "1780308000.0015", 1_780_308_000_002),  # half to even
        ("us->ms", 1_780_308_000_000_500, 1_780_308_000_000),
        ("iso->ms", "2026-06-01T10:00:00Z", TIME_MS),
        ("iso->ms", "2026-06-01T10:00:00", TIME_MS),  # without a zone: UTC
        ("iso->ms", "2026-06-01T12:00:00.0019+02:00", TIME_MS + 1),
    ],
)
def test_times(unit: str, value: object, wanted: int) -> None:
    assert made(value, {"from": "v", "unit": unit}, "time_ms") == wanted


@pytest.mark.parametrize(
    ("unit", "value", "wanted"),
    [
        ("GiB->bytes", "1.5", 3 * 2**29),
        ("MB->bytes", 0.1, 100_000),
        ("TiB->GiB", 2, 2048),
        ("bytes->GiB", 2**29, 0.5),
        ("percent->ratio", 12.5, 0.125),
        ("h->min", 1.5, 90),
        ("number", "2.0", 2),
        ("number", " 1e3 ", 1000),
    ],
)
def test_amounts(unit: str, value: object, wanted: float) -> None:
    assert made(value, {"from": "v", "unit": unit}, "cpu_count") == wanted


def test_a_unit_holds_for_each_entry() -> None:
    labels = {"from": "{a: v, b: nothing, c: `true`}", "unit": "text"}
    assert made(7, labels, "labels") == {"a": "7", "c": "true"}


def test_tables_of_values() -> None:
    field = {"from": "v", "values": {"BIG": 8, "true": 4, "2": 2}, "otherwise": 1}
    found: list[Any] = ["BIG", True, 2, "?", [], {}]
    assert [made(value, field) for value in found] == [8, 4, 2, 1, 1, 1]


def test_what_is_not_found_is_absent_or_the_default() -> None:
    assert made(None, "v") is None
    assert made(None, {"from": "v", "default": 3}) == 3


def test_conditions_and_lists() -> None:
    record = {"all": [{**RECORD, "id": n, "ok": n % 2} for n in range(4)]}
    events, faults = mapped(record, {}, each="all", when="ok == `1`")
    assert [event.value["id"] for event in events] == ["r/1", "r/3"]
    assert not faults
    assert mapped({"all": None}, {}, each="all") == ([], [])


def test_one_bad_entry_leaves_the_others() -> None:
    events, faults = mapped({"all": [RECORD, 5, {**RECORD, "id": "e2"}]}, {}, each="all")
    assert [event.value["id"] for event in events] == ["r/e1", "r/e2"]
    assert [each.reason for each in faults] == ["id"]


def test_texts_with_more_than_one_value() -> None:
    tres = "cpu=4,gres/gpu=2,gres/gpu:h100=2"
    assert made(tres, {"from": 'pairs(v)."gres/gpu"', "unit": "number"}) == 2
    assert made("h100:8", {"from": "split(v, ':')[1]", "unit": "number"}) == 8


#: A NUL byte is in no name.
PARTS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), min_size=2, max_size=2
)


@given(PARTS, PARTS)
def test_different_parts_make_different_ids(first: list[str], second: list[str]) -> None:
    ids = [
        mapped({**RECORD, "parts": parts}, {}, id=["parts[0]", "parts[1]"]).events[0].value["id"]
        for parts in (first, second)
    ]
    assert (ids[0] == ids[1]) == (first == second)


def test_long_ids_are_shortened_and_still_differ() -> None:
    ids = {mapped({**RECORD, "id": "x" * 300 + end}, {}).events[0].value["id"] for end in "ab"}
    assert len(ids) == 2
    assert all(len(each) < 100 for each in ids)


@pytest.mark.parametrize(
    ("value", "field", "said"),
    [
        ("soon", {"from": "v", "unit": "iso->ms"}, 'got "soon", expected a time of ISO 8601'),
        (True, {"from": "v", "unit": "s->ms"}, "got true, expected a number, or one as a text"),
        ("1e99", {"from": "v", "unit": "number"}, 'got "1e99", expected a number below 2^63'),
        ("9" * 5000, {"from": "v", "unit": "number"}, "expected a number, or one as a text"),
        ("x", {"from": "v", "values": {"a": 1, "b": 2}}, 'got "x", expected one of `values`: a, b'),
        (1, "contains(v, 'a')", "cannot be put to it"),
        ("inf", "to_number(v)", "it is no finite number"),
        (1, "&v", "it is an expression and no value"),
    ],
)
def test_a_fault_names_rule_and_field(value: object, field: Any, said: str) -> None:
    line = fault(value, field)
    assert line.startswith("rule `r`, field `gpu_count`: ")
    assert said in line
    assert "\n" not in line


def test_what_the_meter_would_refuse_is_said_by_its_own_rules() -> None:
    assert fault(-1, "v") == (
        "rule `r`: field `gpu_count`: got -1, expected a number from 0 to 100000 with at most three decimals"
    )
    assert fault("x", "v", "type").startswith('rule `r`: field `type`: got "x", expected one of queued')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "malformed_json"),
        (b"\xff\xfe", "malformed_json"),
        (b'{"a": NaN}', "malformed_json"),
        (b'{"a": 1} {}', "malformed_json"),
        (b"[" * 33 + b"]" * 33, "malformed_json"),
        (b"[" * 100_000, "malformed_json"),
        (b'"' + b"x" * 2**18 + b'"', "oversize"),
        (b"[]", "id"),
        (b"null", "id"),
        (b'"text"', "id"),
        (b'{"id": "a"}', "missing_field"),
        (b'{"id": ["a"]}', "id"),
        (b'{"id": "a", "job": {}, "at": "x", "what": []}', "wrong_type"),
    ],
)
def test_a_hostile_record_is_a_reason(text: bytes, reason: str) -> None:
    events, faults = mapped(text, {})
    assert not events
    assert [each.reason for each in faults] == [reason]


def test_levels_are_counted_as_told() -> None:
    assert mapped(b"[" * 32 + b"]" * 32, {}).faults[0].reason == "id"


def test_a_tombstone_is_nothing() -> None:
    assert RecordMap(of_rule({"fields": FIELDS})).of_record("t", None) == ([], [])


@pytest.mark.parametrize(
    ("energy", "unit", "wanted"),
    [
        (465, "J", 465),
        ("465 J", None, 465),
        ("0.129 Wh", None, 464.4),
        ("1.29e-1Wh", "Wh", 464.4),
        (465_000, "mJ", 465),
        (0.465, "kJ", 0.465 * 1000),
        (0.000465, "MJ", 465),
        ("0.5 kWh", None, 1_800_000),
        (129, "mWh", 464.4),
        (0, "J", 0),
    ],
)
def test_energy_is_read_in_the_unit_that_it_says(energy: object, unit: str | None, wanted: float) -> None:
    field = "quotient(joules(v.energy, v.unit), `1`)"
    assert made({"energy": energy, "unit": unit}, field, "instance_count") == wanted


@pytest.mark.parametrize(
    ("energy", "unit", "said"),
    [
        (465, None, "the energy 465 has no unit, expected one of J,"),
        ("465", " ", "has no unit"),
        ("465 mj", None, 'has the unit "mj"'),
        (465, "watt", 'has the unit "watt"'),
        ("465 J", "mJ", "expected one of the two"),
        ("a lot", "J", "is no amount of energy"),
    ],
)
def test_energy_without_a_unit_that_is_known_is_a_fault(energy: object, unit: str | None, said: str) -> None:
    _, faults = mapped(
        {**RECORD, "v": {"energy": energy, "unit": unit}}, {"gpu_count": "joules(v.energy, v.unit)"}
    )
    (found,) = faults
    assert found.reason == "unit"
    assert said in str(found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
NAMES = (
    "jobid",
    "array_job_id",
    "array_task_id",
    "state",
    "cluster",
    "tres_alloc",
    "@start",
    "@end",
    "@submit",
    "qos",
)


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_no_record_stops_the_map(record: dict[str, Any]) -> None:
    """Every record ends as events or faults; those that have GPUs to `when` come to all three rules."""
    rules = RecordMap(options("jobcomp"))
    for each in (record, {**record, "tres_alloc": "gres/gpu=1"}):
        events, faults = rules.of_record(TOPIC, json.dumps(each).encode("utf-8", "surrogatepass"))
    assert len(events) + len(faults) in (1, 3)


@pytest.mark.parametrize(
    ("dividend", "divisor", "wanted"),
    [
        (465, 38.75, 12),
        (81.7, 22.34, 3.657),
        (1, 3, 0.333),
        (2.5, 1000, 0.002),
        (3.5, 1000, 0.004),
        (0, 7, None),
    ],
)
def test_a_quotient_has_three_decimals_half_to_even(
    dividend: float, divisor: float, wanted: float | None
) -> None:
    found = made({"j": dividend, "s": divisor}, "quotient(v.j, v.s)")
    assert found == (wanted or 0)


@pytest.mark.parametrize("value", [{"j": 1, "s": 0}, {"s": 1}, {"j": "5", "s": 1}, {"j": True, "s": 1}])
def test_a_quotient_of_what_is_none_is_a_fault(value: dict[str, Any]) -> None:
    assert "'quotient(v.j, v.s)' cannot be put to it" in fault(value, "quotient(v.j, v.s)")
