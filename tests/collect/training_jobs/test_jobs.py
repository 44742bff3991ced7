"""What clouds say of training jobs becomes their lifecycle: attempts, instances, money as billed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.collect.training_jobs.azure.collector import open_collector as open_azure
from streams.collect.training_jobs.azure.options import Options as AzureOptions
from streams.collect.training_jobs.sagemaker.collector import open_collector as open_sagemaker
from streams.collect.training_jobs.sagemaker.options import Options as SagemakerOptions
from streams.collect.training_jobs.vertex.collector import open_collector as open_vertex
from streams.collect.training_jobs.vertex.options import Options as VertexOptions
from streams.prices.instance_gpus import NO_GPUS, InstanceGpus, gpus_of
from tests.collect.flow_logs.polling import Polled, polled
from tests.collect.training_jobs.world import CLUSTER_GPUS, HERE, sagemaker_documents
from tests.harness import meter
from tests.oracle.model import Line
from tests.source_cases import source_case

T0_MS = 1_780_308_000_000
OPEN: dict[str, tuple[Any, Any]] = {
    "sagemaker": (open_sagemaker, SagemakerOptions),
    "vertex": (open_vertex, VertexOptions),
    "azure": (open_azure, AzureOptions),
}


def read(cloud: str, folder: Path, text: bytes, **others: Any) -> Polled:
    open_collector, options = OPEN[cloud]
    path = folder / f"{cloud}.json"
    path.write_bytes(text)
    return polled(open_collector(options(files=[str(path)], **others)))


def document(**changes: Any) -> bytes:
    return json.dumps({**sagemaker_documents()[0], **changes}).encode()


def steps(found: Polled, job_id: str) -> list[tuple[Any, ...]]:
    return [
        (event["attempt"], event["type"], (event["time_ms"] - T0_MS) / 1000, event.get("reason", ""))
        for event in found.events
        if event["job_id"] == job_id
    ]


def gpu_seconds(found: Polled, job_id: str) -> float:
    lines = [Line("jobs", event) for event in found.events if event["job_id"] == job_id]
    tables = meter(lines, as_of_ms=T0_MS + 86_400_000)
    return sum(row.quantity for row in tables.ledger.values()) / 1e6  # no price: GPU-time alone


def test_sagemaker_is_paid_as_it_is_billed(tmp_path: Path) -> None:
    found = read("sagemaker", tmp_path, (HERE / "sagemaker.json").read_bytes())
    assert steps(found, "llama-sft-2026-06-01") == [
        (1, "queued", -119.877, ""),
        (1, "allocated", 0.0, ""),
        (1, "started", 120.0, ""),
        (1, "completed", 3600.0, ""),
    ]
    started = found.events[2]
    assert {name: started[name] for name in ("gpu_count", "gpu_type", "instance_count", "instance_type")} == {
        "gpu_count": 16,
        "gpu_type": "A100",
        "instance_count": 2,
        "instance_type": "ml.p4d.24xlarge",
    }
    assert [started[name] for name in ("cloud", "region", "account", "purchase")] == [
        "aws",
        "us-east-1",
        "123456789012",
        "on_demand",
    ]
    assert [started[name] for name in ("owner", "team", "experiment")] == ["ada", "vision", "sft"]
    assert found.events[3]["labels"] == {"sagemaker": "llama-sft-2026-06-01", "billable_s": "3600"}
    assert gpu_seconds(found, "llama-sft-2026-06-01") == 16 * 3600
    assert (found.account.reasons, found.account.said) == ({}, [])
    assert "a-secret" not in json.dumps(found.events)


def test_an_interruption_of_spot_capacity_ends_an_attempt(tmp_path: Path) -> None:
    found = read("sagemaker", tmp_path, (HERE / "sagemaker.json").read_bytes())
    assert steps(found, "vit-spot") == [
        (1, "queued", 0.5, ""),
        (1, "allocated", 60.0, ""),
        (1, "started", 120.0, ""),
        (1, "preempted", 2000.0, "spot_reclaim"),
        (2, "queued", 2000.0, ""),
        (2, "allocated", 4100.0, ""),
        (2, "started", 4200.0, ""),
        (2, "preempted", 6000.0, "spot_reclaim"),
        (3, "queued", 6000.0, ""),
        (3, "failed", 7000.0, "timeout"),
    ]
    assert gpu_seconds(found, "vit-spot") == 4 * 3840  # BillableTimeInSeconds, by four GPUs
    assert found.events[-1]["labels"]["billable_s"] == "3840"


def test_what_is_billed_otherwise_is_said(tmp_path: Path) -> None:
    found = read("sagemaker", tmp_path, document(BillableTimeInSeconds=3000))
    assert found.account.reasons == {"billable_time": 1}
    assert found.account.said == [
        "sagemaker.json record 1: llama-sft-2026-06-01 is paid for 3600 s, and billed for 3000 s"
    ]
    assert len(found.events) == 4


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        (
            {"TrainingJobStatus": "Failed", "FailureReason": "AlgorithmError: exit code 1"},
            "failed",
            "user_error",
        ),
        (
            {"TrainingJobStatus": "Failed", "FailureReason": "InternalServerError: x"},
            "failed",
            "node_failure",
        ),
        ({"TrainingJobStatus": "Failed", "FailureReason": "Something"}, "failed", "unknown"),
        ({"TrainingJobStatus": "Failed"}, "failed", "unknown"),
        ({"TrainingJobStatus": "Stopped"}, "cancelled", ""),
        ({"TrainingJobStatus": "Stopping"}, "started", ""),
    ],
)
def test_ends_of_sagemaker(changes: dict[str, str], kind: str, reason: str, tmp_path: Path) -> None:
    assert steps(read("sagemaker", tmp_path, document(**changes)), "llama-sft-2026-06-01")[-1][1:4:2] == (
        kind,
        reason,
    )


def pool(status: str, seconds: int) -> dict[str, Any]:
    return {"WarmPoolStatus": {"Status": status, "ResourceRetainedBillableTimeInSeconds": seconds}}


@pytest.mark.parametrize("status", ["Terminated", "Reused"])
def test_a_warm_pool_is_paid_after_the_job_by_its_owner(status: str, tmp_path: Path) -> None:
    plain = read("sagemaker", tmp_path, document())
    found = read("sagemaker", tmp_path, document(**pool(status, 1800)))
    kept = [event for event in found.events if event["job_id"].endswith("/warm-pool")]
    assert [event for event in found.events if event not in kept] == plain.events
    begun, ended = kept
    job = plain.events[-1]
    assert (begun["type"], ended["type"], ended["time_ms"] - begun["time_ms"]) == (
        "allocated",
        "completed",
        1_800_000,
    )
    assert begun["time_ms"] == job["time_ms"]
    assert begun["labels"]["warm_pool_of"] == job["job_id"]
    started = next(event for event in plain.events if event["type"] == "allocated")
    assert all(begun.get(name) == started.get(name) for name in ("owner", "team", "gpu_count", "purchase"))


def test_a_warm_pool_that_is_still_kept_is_said_with_its_seconds(tmp_path: Path) -> None:
    found = read("sagemaker", tmp_path, document(**pool("Available", 600)))
    assert found.events == read("sagemaker", tmp_path, document()).events
    assert found.account.reasons == {"warm_pool": 1}
    assert "kept for 600 s" in found.account.said[0]
    assert read("sagemaker", tmp_path, document(**pool("InUse", 0))).account.reasons == {}
    assert read("sagemaker", tmp_path, document(**pool("Terminated", 10**12))).account.reasons == {
        "malformed": 1
    }


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({"WarmPoolStatus": {"Status": "Available"}}, True),
        ({"WarmPoolStatus": {"Status": "Terminated"}}, True),
        ({"WarmPoolStatus": {"Status": "InUse"}}, False),
        ({"WarmPoolStatus": {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}}, False),
        ({"Keep": 1800}, True),
        ({"Keep": 1800, "TrainingJobStatus": "InProgress"}, False),
        ({}, False),
    ],
)
def test_a_warm_pool_of_unknown_length_is_said(
    changes: dict[str, Any], is_said: bool, tmp_path: Path
) -> None:
    """SageMaker leaves the seconds out while it does not know them; they are paid all the same."""
    job = json.loads(document(**{name: value for name, value in changes.items() if name != "Keep"}))
    if "Keep" in changes:
        job["ResourceConfig"]["KeepAlivePeriodInSeconds"] = changes["Keep"]
    found = read("sagemaker", tmp_path, json.dumps(job).encode())
    assert found.account.reasons.get("warm_pool", 0) == is_said


@pytest.mark.parametrize(
    ("strategy", "purchase"), [("SPOT", "spot"), ("LOW_COST", "spot"), ("FLEX_START", "on_demand")]
)
def test_spot_capacity_of_vertex_has_two_words(strategy: str, purchase: str, tmp_path: Path) -> None:
    pool = {"machineSpec": {"machineType": "a3-highgpu-8g"}, "replicaCount": "1"}
    job = {
        "name": "projects/1/locations/us-central1/customJobs/9", "state": "JOB_STATE_SUCCEEDED",
        "createTime": "2026-06-01T10:00:00Z", "startTime": "2026-06-01T10:05:00Z", "endTime": "2026-06-01T11:05:00Z",
        "jobSpec": {"workerPoolSpecs": [pool], "scheduling": {"strategy": strategy}},
    }  # fmt: skip
    found = read("vertex", tmp_path, json.dumps(job).encode())
    assert found.events[0]["purchase"] == purchase


def test_a_public_report_of_warm_pools_and_training_plans(tmp_path: Path) -> None:
    found = read("sagemaker", tmp_path, (source_case("14-sagemaker-warmpool") / "jobs.json").read_bytes())
    assert gpu_seconds(found, "warm") == 8 * 3600
    assert gpu_seconds(found, "warm/warm-pool") == 8 * 1800
    bought = {event["job_id"]: event["purchase"] for event in found.events if "purchase" in event}
    assert (bought["plan"], bought["warm"], bought["spot"]) == ("reserved", "on_demand", "spot")


def test_without_transitions_it_is_paid_all_the_same(tmp_path: Path) -> None:
    found = read("sagemaker", tmp_path, document(SecondaryStatusTransitions=[]))
    assert [step[1] for step in steps(found, "llama-sft-2026-06-01")] == ["queued", "allocated", "completed"]


def test_groups_of_several_types(tmp_path: Path) -> None:
    groups = [
        {"InstanceGroupName": "a", "InstanceType": "ml.g5.xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "b", "InstanceType": "ml.c5.18xlarge", "InstanceCount": 1},
    ]
    event = read("sagemaker", tmp_path, document(ResourceConfig={"InstanceGroups": groups})).events[0]
    assert (event["gpu_count"], event["instance_count"], event["gpu_type"]) == (2, 3, "A10G")
    assert "instance_type" not in event


def test_an_instance_that_is_not_known_is_said_and_can_be_given(tmp_path: Path) -> None:
    changed = document(ResourceConfig={"InstanceType": "ml.p99.48xlarge", "InstanceCount": 1})
    found = read("sagemaker", tmp_path, changed)
    assert found.account.reasons == {"unknown_instance": 1}
    assert "which GPUs ml.p99.48xlarge has is not known; see instance_gpus" in found.account.said[0]
    assert found.events[0]["gpu_count"] == 0
    given = read("sagemaker", tmp_path, changed, instance_gpus={"ml.p99.48xlarge": "8xX900"})
    assert (given.events[0]["gpu_count"], given.events[0]["gpu_type"]) == (8, "X900")


def test_vertex(tmp_path: Path) -> None:
    found = read("vertex", tmp_path, (HERE / "vertex.json").read_bytes())
    assert steps(found, "4567890123456789012") == [
        (1, "queued", -59.877, ""),
        (1, "started", 0.0, ""),
        (1, "completed", 1800.0, ""),
    ]
    started = found.events[1]
    wanted = {
        "gpu_count": 32, "gpu_type": "H100", "instance_count": 4, "instance_type": "a3-highgpu-8g", "cloud": "gcp",
        "region": "us-central1", "purchase": "spot", "owner": "ada", "team": "nlp", "labels": {"vertex": "train-70b"},
    }  # fmt: skip
    assert {name: started[name] for name in wanted} == wanted
    assert steps(found, "4567890123456789013")[-1] == (1, "failed", 120.0, "timeout")
    assert found.events[-2]["gpu_type"] == "T4"


def test_a_machine_of_vertex_whose_accelerators_are_in_its_name(tmp_path: Path) -> None:
    document = json.loads((HERE / "vertex.json").read_bytes())[0]
    machine = document["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]
    del machine["acceleratorType"], machine["acceleratorCount"], document["jobSpec"]["scheduling"]
    machine["reservationAffinity"] = {"reservationAffinityType": "SPECIFIC_RESERVATION"}
    started = read("vertex", tmp_path, json.dumps(document).encode()).events[1]
    named = (started["gpu_type"], started["instance_type"], started["purchase"])
    assert named == ("H100", "a3-highgpu-8g", "reserved")
    assert started["gpu_count"] >= 8


def test_azure(tmp_path: Path) -> None:
    found = read("azure", tmp_path, (HERE / "azure.json").read_bytes(), instance_gpus=CLUSTER_GPUS)
    assert [step[1:3] for step in steps(found, "happy_lamp_1")] == [
        ("queued", -60.0),
        ("started", 0.0),
        ("completed", 1800.0),
    ]
    started = found.events[1]
    wanted = {
        "gpu_count": 16, "gpu_type": "H100", "instance_count": 2, "instance_type": "Standard_ND96isr_H100_v5",
        "cloud": "azure", "owner": "Ada", "team": "nlp", "experiment": "bert",
    }  # fmt: skip
    assert {name: started[name] for name in wanted} == wanted
    assert [step[1] for step in steps(found, "sad_lamp_2")] == ["queued", "started"]
    assert (found.events[-1]["gpu_count"], found.events[-1]["gpu_type"]) == (8, "A100")


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("ml.p5.48xlarge", InstanceGpus(8, "H100")),
        ("g5.48xlarge", InstanceGpus(8, "A10G")),
        ("Standard_NC24ads_A100_v4", InstanceGpus(1, "A100-80GB")),
        ("ml.m5.large", NO_GPUS),
        ("Standard_D4s_v3", NO_GPUS),
        ("ml.p99.48xlarge", None),
        ("a3-highgpu-8g", InstanceGpus(8, "H100")),
        ("a4x-highgpu-4g", InstanceGpus(4, "GB200")),
        ("a2-special-1", None),
        ("ct5lp-hightpu-4t", None),
        ("n1-standard-4", NO_GPUS),
        ("c4d-standard-8", NO_GPUS),
        ("u7i-12tb.224xlarge", NO_GPUS),
        ("", None),
    ],
)
def test_gpus_of_instances(name: str, gpus: InstanceGpus | None) -> None:
    assert gpus_of(name, {}) == gpus


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"files": ["a"], "command": ["aws"]},
        {"files": ["a"], "instance_gpus": {"x": "8"}},
        {"files": ["a"], "instance_gpus": {"x": "0xH100"}},
        {"files": ["a"], "tags": {"who": "owner"}},
        {"files": ["a"], "price_fields": {"colour": "red"}},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SagemakerOptions.model_validate(options)


def test_a_command_is_asked_and_what_did_not_change_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_bytes((HERE / "sagemaker.json").read_bytes())
    command = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(path)]
    collector = open_sagemaker(SagemakerOptions(command=command))
    first = polled(collector)
    assert len(first.events) == 14
    assert polled(collector, first.position).events == []
    path.write_bytes(document(BillableTimeInSeconds=3600, TrainingJobStatus="InProgress"))
    changed = polled(collector, first.position)
    assert {event["job_id"] for event in changed.events} == {"llama-sft-2026-06-01"}
    assert len(changed.position["seen"]) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def takes(found: Polled) -> None:
    for event in found.events:
        assert not isinstance(decode("jobs", msgspec.json.encode(event), (), 2**53), Invalid), event


@pytest.mark.parametrize("cloud", OPEN)
@given(data=st.data())
def test_bytes_changed_at_random(cloud: str, folder: Path, data: st.DataObject) -> None:
    text = bytearray((HERE / f"{cloud}.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    takes(read(cloud, folder, bytes(text)))


@pytest.mark.parametrize("cloud", OPEN)
@pytest.mark.parametrize(
    "text", [b"{", b"[[]]", b"3", b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b"9" * 5_000, b"\xff", b"{} {}"]
)
def test_what_is_no_document_is_malformed(cloud: str, text: bytes, folder: Path) -> None:
    found = read(cloud, folder, text)
    assert not found.events
    assert found.account.reasons.keys() == {"malformed"}


@pytest.mark.parametrize(
    "changes",
    [
        {"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 10**9}},
        {"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": -1}},
        {"CreationTime": 5},
        {"CreationTime": 1e300},
        {"CreationTime": "yesterday"},
    ],
)
def test_what_cannot_be_is_malformed(changes: dict[str, Any], folder: Path) -> None:
    assert read("sagemaker", folder, document(**changes)).account.reasons == {"malformed": 1}
