"""Documents of jobs that do not say what a cost follows from: times, instances, the rest of a list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from streams.collect.training_jobs.sagemaker.collector import open_collector as open_sagemaker
from streams.collect.training_jobs.sagemaker.options import Options as SagemakerOptions
from tests.collect.accounts import counted, of_files

BEGIN: Final = "2026-06-01T10:00:00Z"
END: Final = "2026-06-01T11:00:00Z"


def sagemaker(**changes: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "a", "TrainingJobStatus": "Completed", "CreationTime": BEGIN, "TrainingStartTime": BEGIN,
        "TrainingEndTime": END, "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1}, **changes,
    }  # fmt: skip


def vertex(machine: dict[str, Any], **changes: Any) -> dict[str, Any]:
    pools = [{"machineSpec": machine, "replicaCount": "1"}]
    return {
        "name": "projects/1/locations/us-central1/customJobs/1", "state": "JOB_STATE_SUCCEEDED", "createTime": BEGIN,
        "startTime": BEGIN, "endTime": END, "jobSpec": {"workerPoolSpecs": pools}, **changes,
    }  # fmt: skip


def azure(status: str = "Completed", **changes: Any) -> dict[str, Any]:
    resources = {"instanceType": "Standard_ND96isr_H100_v5", "instanceCount": 2}
    return {"name": "a", "properties": {"status": status, "resources": resources}, **changes}


H100S: Final = {"machineType": "a3-highgpu-8g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 8}
TIMES: Final = {"startTimeUtc": BEGIN, "endTimeUtc": END}


@pytest.mark.parametrize(
    ("collector", "document", "reasons"),
    [
        ("sagemaker", sagemaker(), {"metered": 1}),
        ("sagemaker", sagemaker(TrainingEndTime=None), {"no_times": 1}),
        ("sagemaker", sagemaker(TrainingStartTime=None), {"no_times": 1}),
        ("sagemaker", sagemaker(TrainingJobStatus="Stopped", TrainingStartTime=None), {"metered": 1}),
        ("sagemaker", sagemaker(TrainingJobStatus="InProgress", TrainingEndTime=None), {"metered": 1}),
        ("sagemaker", sagemaker(ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 0}), {"malformed": 1}),
        ("sagemaker", sagemaker(TrainingEndTime="2026-06-01T09:59:00Z"), {"no_times": 1}),
        ("vertex-ai", vertex(H100S), {"metered": 1}),
        ("vertex-ai", vertex(H100S, startTime=END, endTime=BEGIN), {"no_times": 1}),
        ("vertex-ai", vertex(H100S, endTime=None), {"no_times": 1}),
        ("vertex-ai", vertex(H100S, state="JOB_STATE_RUNNING", startTime=None, endTime=None), {"no_times": 1}),
        ("vertex-ai", vertex(H100S, state="JOB_STATE_PENDING", startTime=None, endTime=None), {"metered": 1}),
        ("vertex-ai", vertex({"machineType": "ct5lp-hightpu-4t", "tpuTopology": "4x4"}), {"unknown_instance": 1}),
        ("azure-ml", azure(**TIMES), {"metered": 1}),
        ("azure-ml", azure(), {"no_times": 1}),
        ("azure-ml", azure(startTimeUtc=BEGIN), {"no_times": 1}),
        ("azure-ml", azure("Running"), {"no_times": 1}),
        ("azure-ml", azure("Queued"), {"metered": 1}),
    ],
)  # fmt: skip
def test_a_job_that_does_not_say_when_it_held_what_is_not_understood(
    tmp_path: Path, collector: str, document: dict[str, Any], reasons: dict[str, int]
) -> None:
    assert counted(of_files(collector, json.dumps(document), tmp_path)) == reasons


@pytest.mark.parametrize(
    ("collector", "field", "content"),
    [
        ("sagemaker", "NextToken", {"TrainingJobs": [sagemaker()]}),
        ("vertex-ai", "nextPageToken", {"customJobs": [vertex(H100S)]}),
        ("azure-ml", "nextLink", {"value": [azure(**TIMES)]}),
    ],
)
def test_a_list_with_another_page_says_so(
    tmp_path: Path, collector: str, field: str, content: dict[str, Any]
) -> None:
    assert counted(of_files(collector, json.dumps(content | {field: None}), tmp_path)) == {"metered": 1}
    found = of_files(collector, json.dumps(content | {field: "abc"}), tmp_path)
    assert counted(found) == {"metered": 1, "more_pages": 1}
    assert field in found.said[0]


def test_another_page_of_a_command_is_said_at_each_poll(tmp_path: Path) -> None:
    (tmp_path / "page.json").write_text(json.dumps({"TrainingJobs": [sagemaker()], "NextToken": "abc"}))
    collector = open_sagemaker(SagemakerOptions(command=["cat", str(tmp_path / "page.json")]))
    (batch,) = collector.poll(None, 0)
    assert counted(batch.account) == {"metered": 1, "more_pages": 1}
    (batch,) = collector.poll(batch.position, 0)
    assert counted(batch.account) == {"unchanged": 1, "more_pages": 1}
