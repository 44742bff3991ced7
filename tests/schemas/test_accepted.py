from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from schemas.decode import decode
from schemas.events import (
    Component,
    ControlEvent,
    GpuEvent,
    JobEvent,
    JobType,
    NodeEvent,
    NodeType,
    PriceEvent,
    TrafficEvent,
)
from schemas.invalid import Invalid
from schemas.units import Per, Unit
from schemas.wire_types import JobTypeName, NodeTypeName
from tests.schemas.records import FULL, NOW_MS, REQUIRED, decoded, record


def test_a_full_job_record() -> None:
    assert decoded("jobs", FULL["jobs"]) == JobEvent(
        source="slurm",
        id="e1",
        time_ms=NOW_MS,
        job_id="llama-42",
        attempt=2,
        type=JobType.started,
        gpu_milli=8500,
        nodes={"node-1": 8000, "node-2": 500},
        fields={
            "cloud": "aws",
            "region": "us-east-1",
            "zone": "us-east-1a",
            "cluster": "a",
            "account": "123",
            "instance_type": "p5.48xlarge",
            "gpu_type": "H100",
            "purchase": "spot",
        },
        instance_milli=2000,
        cpu_milli=96_500,
        memory_milli=512_125,
        owner="ada",
        team="nlp",
        project="llama",
        experiment="lr-sweep",
        gpus_requested=16,
        run_id="llama-7b-a",
        work_dir="/home/ada/llama",
        labels={"stage": "pretraining", "größe": "70b"},
        reason="spot_reclaim",
        holds_gpus=True,
        expected_nano_per_hour=98_320_000_000,
        budget={"usd": "5000", "gpu_hours": 1000, "wall_clock_hours": 72.5, "action": "checkpoint"},
        deadline_ms=NOW_MS + 10**9,
        quality={"loss": -1.5, "accuracy": 0.75},
        progress={"step": 12000.0, "tokens": 3.5e9},
        duration_ms=42_000,
    )


def test_a_full_gpu_record() -> None:
    assert decoded("gpu", FULL["gpu"]) == GpuEvent(
        source="dcgm/node-1",
        id="g1",
        time_ms=NOW_MS,
        node="node-1",
        job_id="llama-42",
        attempt=1,
        interval_ms=1000,
        gpus=["GPU-a", "GPU-b"],
        util_ratio=[0.5, 1.0],
        sm_ratio=[0.25, 0.5],
        tensor_ratio=[0.0, 0.125],
        memory_used_mib=[40_000.0, 70_000.5],
        power_w=[350.0, 699.5],
        fields={"gpu_type": "H100", "purchase": "on_prem"},
    )


def test_a_full_network_record() -> None:
    match = {"path": "cross_region", "direction": "egress", "dst_region": "eu-west-1", "cloud": "aws"}
    match["region"] = "us-east-1"
    amounts = ((Unit.bytes, 123_456_789),)
    expected = TrafficEvent("network", "flow-logs", "n1", NOW_MS, "llama-42", 1, 60_000, amounts, match)
    assert decoded("network", FULL["network"]) == expected


def test_a_full_storage_record() -> None:
    match = {"op": "read", "storage_class": "standard", "cloud": "aws", "region": "us-east-1"}
    amounts = ((Unit.bytes, 2**53), (Unit.requests, 1000))
    expected = TrafficEvent("storage", "s3", "s1", NOW_MS, "llama-42", 1, 0, amounts, match)
    assert decoded("storage", FULL["storage"]) == expected


def test_a_full_node_record() -> None:
    fields = {"cluster": "a", "gpu_type": "H100"}
    expected = NodeEvent("karpenter", "k1", NOW_MS, "node-1", NodeType.provisioned, 8000, fields)
    assert decoded("nodes", FULL["nodes"]) == expected


def test_a_full_price_record() -> None:
    assert decoded("prices", FULL["prices"]) == PriceEvent(
        source="list",
        id="p1",
        time_ms=NOW_MS,
        sku="h100-spot",
        component=Component.gpu,
        usd_nano=2_123_456_789,
        per=Per.instance_hour,
        gpus=8,
        effective_ms=NOW_MS + 10**10,
        match={"gpu_type": "H100", "purchase": "spot"},
    )


def test_a_full_control_record_keeps_what_is_not_its_own_as_the_value() -> None:
    value = {
        "subject": "team",
        "usd": "10000",
        "gpu_hours": 5000,
        "wall_clock_hours": 10.5,
        "period": "month",
        "action": "notify",
    }
    assert decoded("controls", FULL["controls"]) == ControlEvent("cli", "c1", NOW_MS, "budget", "nlp", value)


@pytest.mark.parametrize("topic", sorted(set(FULL) - {"storage"}))
def test_the_required_fields_are_enough(topic: str) -> None:
    smallest = {name: FULL[topic][name] for name in REQUIRED[topic]}
    if topic == "prices":
        smallest["per"] = "gpu_hour"
    assert not isinstance(decoded(topic, smallest), Invalid)


@pytest.mark.parametrize("topic", sorted(FULL))
def test_null_is_absent_in_every_optional_field(topic: str) -> None:
    optional = set(FULL[topic]) - set(REQUIRED[topic])
    if topic == "storage":
        optional.remove("bytes")
    if topic == "prices":
        optional.remove("gpus")
    nulls = decoded(topic, record(topic, **dict.fromkeys(optional)))
    absent = decoded(topic, record(topic, **dict.fromkeys(optional, ...)))
    assert not isinstance(nulls, Invalid)
    if topic != "controls":  # keeps its nulls in the value
        assert nulls == absent


def test_defaults() -> None:
    job = decoded("jobs", {name: FULL["jobs"][name] for name in REQUIRED["jobs"]})
    assert job == JobEvent("slurm", "e1", NOW_MS, "llama-42", 1, JobType.started)
    gpu = decoded("gpu", {name: FULL["gpu"][name] for name in REQUIRED["gpu"]})
    assert gpu == GpuEvent("dcgm/node-1", "", NOW_MS, "node-1", "", 1, 1000, ["GPU-a", "GPU-b"], [0.5, 1.0])
    network = decoded("network", {name: FULL["network"][name] for name in REQUIRED["network"]})
    assert isinstance(network, TrafficEvent)
    assert network.match == {"path": "unclassified"}


def test_every_type_name_on_the_wire_is_a_type_in_the_order_of_the_contract() -> None:
    assert get_args(JobTypeName) == tuple(JobType.__members__)
    assert get_args(NodeTypeName) == tuple(NodeType.__members__)
    assert [int(member) for member in JobType] == list(range(13))


def test_a_scalar_gpu_is_an_array_of_one() -> None:
    scalars = {"gpu": "GPU-a", "util_ratio": 1, "sm_ratio": 0.5, "tensor_ratio": 0, "power_w": 300}
    event = decoded("gpu", record("gpu", gpus=..., memory_used_mib=7, **scalars))
    assert isinstance(event, GpuEvent)
    assert event.gpus == ["GPU-a"]
    arrays = (event.util_ratio, event.sm_ratio, event.tensor_ratio, event.memory_used_mib, event.power_w)
    assert arrays == ([1.0], [0.5], [0.0], [7.0], [300.0])


def test_gpus_win_over_a_gpu_beside_them() -> None:
    event = decoded("gpu", record("gpu", gpu="GPU-z"))
    assert isinstance(event, GpuEvent)
    assert event.gpus == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize(
    ("changes", "gpu_milli"),
    [
        ({"gpu_count": ...}, 8500),
        ({"gpu_count": ..., "nodes": {}}, 0),
        ({"gpu_count": 0.3, "nodes": {"a": 0.1, "b": 0.2}}, 300),
        ({"gpu_count": 100_000, "nodes": ...}, 100_000_000),
        ({"gpu_count": 0, "nodes": ...}, 0),
        ({"gpu_count": ..., "nodes": ...}, None),
    ],
)
def test_gpu_count_and_nodes(changes: dict[str, Any], gpu_milli: int | None) -> None:
    event = decoded("jobs", record("jobs", **changes))
    assert isinstance(event, JobEvent)
    assert event.gpu_milli == gpu_milli


@pytest.mark.parametrize(
    ("expected", "nano"),
    [
        ("0", 0),
        (0, 0),
        (1, 10**9),
        (0.1, 10**8),
        (1 / 3, 333_333_333),
        (2.0000000005, 2_000_000_000),  # half to even
        (2.0000000015, 2_000_000_002),
        ("400000.000000001", 400_000_000_000_001),
        (999_999_999, 999_999_999 * 10**9),
        (1e-300, 0),
    ],
)
def test_expected_rate_is_a_number_or_a_decimal_string(expected: object, nano: int) -> None:
    event = decoded("jobs", record("jobs", expected_usd_per_hour=expected))
    assert isinstance(event, JobEvent)
    assert event.expected_nano_per_hour == nano


@pytest.mark.parametrize(
    ("op", "amounts", "booked"),
    [
        ("read", {"bytes": 5}, ((Unit.bytes, 5),)),
        ("write", {"requests": 5}, ((Unit.requests, 5),)),
        ("write", {"requests": 5, "bytes": 0}, ((Unit.bytes, 0), (Unit.requests, 5))),
        ("list", {"requests": 5, "bytes": 9}, ((Unit.requests, 5),)),
        ("delete", {"requests": 0}, ((Unit.requests, 0),)),
        ("stored", {"bytes": 2**20 * 3 + 2**20 - 1, "requests": 9}, ((Unit.mib_ms, 3),)),
        ("stored", {"bytes": 2**53}, ((Unit.mib_ms, 2**33),)),
    ],
)
def test_what_a_storage_operation_books(
    op: str, amounts: dict[str, int], booked: tuple[tuple[Unit, int], ...]
) -> None:
    event = decoded("storage", record("storage", **{"op": op, "bytes": ..., "requests": ..., **amounts}))
    assert isinstance(event, TrafficEvent)
    assert event.amounts == booked


_PRICES = [
    *(("gpu", per) for per in ("gpu_hour", "instance_hour")),
    *(("compute", per) for per in ("instance_hour", "vcpu_hour", "memory_gib_hour", "job_hour")),
    *(
        (part, per)
        for part in ("license", "labor", "overhead")
        for per in ("gpu_hour", "instance_hour", "job_hour")
    ),
    *(("network", per) for per in ("gib", "gb")),
    *(("storage", per) for per in ("gib", "gb", "thousand_requests", "gib_month")),
]


@pytest.mark.parametrize("component", [str(component) for component in Component])
@pytest.mark.parametrize("per", [str(per) for per in Per])
def test_a_component_may_be_per_what_the_contract_lists_and_nothing_else(component: str, per: str) -> None:
    per_instance = (component, per) == ("compute", "instance_hour")
    event = decoded("prices", record("prices", component=component, per=per, gpus=... if per_instance else 8))
    assert isinstance(event, PriceEvent) == ((component, per) in _PRICES)
    if isinstance(event, PriceEvent) and not per_instance:
        assert event.gpus == (8 if per == "instance_hour" else 1)


def test_an_instance_hour_of_compute_needs_no_gpus() -> None:
    event = decoded("prices", record("prices", component="compute", gpus=...))
    assert isinstance(event, PriceEvent)
    assert event.gpus == 0


@pytest.mark.parametrize("time_ms", [946_684_800_000, NOW_MS + 300_000])
@pytest.mark.parametrize("topic", sorted(FULL))
def test_the_first_and_the_last_time_that_count(topic: str, time_ms: int) -> None:
    assert not isinstance(decoded(topic, record(topic, time_ms=time_ms)), Invalid)


@pytest.mark.parametrize(
    ("topic", "changes"),
    [
        ("jobs", {"job_id": "ü" * 100}),
        ("jobs", {"job_id": "😀" * 50}),
        ("jobs", {"attempt": 2**31 - 1}),
        ("jobs", {"cpu_count": 100_000_000_000}),
        ("jobs", {"labels": {}, "quality": {}, "budget": {}}),
        ("jobs", {"unknown": [{"deep": None}], "labels": {"": ""}}),
        ("gpu", {"interval_ms": 3_600_000}),
        ("gpu", {"gpus": ["GPU-a", "GPU-a"]}),
        ("gpu", {"job_id": "", "id": ""}),
        ("network", {"bytes": 2**53, "interval_ms": 31 * 86_400_000}),
        ("prices", {"usd": "0", "effective_ms": 0, "gpus": 1_000_000}),
        ("controls", {"kind": "silence", "from_ms": 0, "until_ms": NOW_MS * 2, "region": "eu"}),
        ("controls", {"kind": "owner", "webhook": "https://example.org/", "slack": None}),
        ("controls", {"kind": "planned", "usd_per_hour": 120.5}),
    ],
)
def test_what_lies_on_the_edge_is_accepted(topic: str, changes: dict[str, Any]) -> None:
    assert not isinstance(decoded(topic, record(topic, **changes)), Invalid)


def test_a_record_of_exactly_one_mebibyte_is_accepted() -> None:
    body = record("jobs", comment="")
    padding = 2**20 - len(_json(body))
    assert not isinstance(decoded("jobs", _json({**body, "comment": "x" * padding})), Invalid)


def test_a_control_without_a_value_is_a_deletion() -> None:
    assert decode("controls", None, (), NOW_MS) == ControlEvent("", "", 0, "", "", {})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
