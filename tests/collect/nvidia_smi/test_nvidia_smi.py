"""GPUs of a node as nvidia-smi tells of them, and whose they are."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.accounts.account import Account
from streams.collect.collector import EventBatch, SourceUnavailableError
from streams.collect.nvidia_smi.answers import (
    GPU_QUERY,
    PROCESS_QUERY,
    REPORT_QUERY,
    read_gpus,
    read_means,
    read_processes,
)
from streams.collect.nvidia_smi.collector import NvidiaSmiCollector
from streams.collect.nvidia_smi.options import Options
from streams.collect.nvidia_smi.processes import group_of, job_of
from tests.collect.nvidia_smi.world import T0_MS, NvidiaSmiWorld, gpus, report
from tests.collect.world import Log

#: As kernels write them, of version 2 and 1 of control groups.
GROUPS = {
    17: b"0::/system.slice/slurmstepd.scope/job_1041/step_0/user/task_0\n",
    18: b"12:cpuset:/slurm/uid_1000/job_1042/step_batch\n4:memory:/slurm/uid_1000/job_1042/step_batch/task_0\n",
    19: b"0::/system.slice/n1_slurmstepd.scope/job_1043/step_0/user/task_0\n",
    20: b"0::/user.slice/user-1000.slice/session-2.scope\n",
    21: b"0::/user.slice/job_1044/step_0\n",
    22: b"",
}


def polled(answers: Mapping[str, str], **options: Any) -> EventBatch:
    """What is made of answers to the queries."""
    collector = NvidiaSmiCollector(
        Options(**options),
        lambda arguments: answers.get(arguments[0], "").encode(),
        "n1",
        lambda pid: GROUPS[pid],
    )
    (batch,) = collector.poll(None, T0_MS + 7_000)
    return batch


def test_a_node_becomes_a_sample_of_each_job(tmp_path: Path) -> None:
    world = NvidiaSmiWorld(tmp_path)
    now_ms = world.turn(4)
    (batch,) = world.collector().poll(None, now_ms)
    log = Log()
    log.publish(batch.events)
    assert not log.refused()
    common = {
        "source": "nvidia-smi",
        "time_ms": now_ms,
        "interval_ms": 15_000,
        "node": "n1",
        "gpu_type": "NVIDIA H100 80GB HBM3",
    }
    assert [event.value for event in batch.events] == [
        {
            **common, "job_id": "train-a", "attempt": 1, "gpus": ["0"], "util_ratio": [0.2],
            "memory_used_mib": [69956.0], "power_w": [433.78],
        },
        {
            **common, "job_id": "train-b", "attempt": 2, "gpus": ["1"], "util_ratio": [1.0],
            "memory_used_mib": [1004.0], "power_w": [700.0],
        },
        {**common, "gpus": ["2"], "util_ratio": [0.0], "memory_used_mib": [59.0]},
    ]  # fmt: skip
    assert batch.account.said == [
        "GPU 3 (NVIDIA H100 80GB HBM3): its utilization is [N/A]; MIG instances are sampled by dcgm and the SDK"
    ]


def test_a_report_of_other_gpus_counts_for_none() -> None:
    answers = {GPU_QUERY[0]: gpus(4), REPORT_QUERY[0]: report(4, gpus=3)}
    batch = polled(answers)
    assert batch.events[0].value["util_ratio"] == [0.4, 1.0, 0.0]
    assert (
        "4 GPUs and 3 in the report of their utilization: the last readings are taken" in batch.account.said
    )


def test_a_refused_report_leaves_the_last_readings() -> None:
    def ask(arguments: Sequence[str]) -> bytes:
        if arguments == REPORT_QUERY:
            raise SourceUnavailableError("nvidia-smi: exit status 2")
        return gpus(4).encode()

    (batch,) = NvidiaSmiCollector(Options(), ask, "n1").poll(None, T0_MS)
    assert batch.events[0].value["util_ratio"] == [0.4, 1.0, 0.0]
    assert (
        "the last reading of each GPU's utilization is taken: nvidia-smi: exit status 2" in batch.account.said
    )


def test_values_that_no_gpu_has_are_counted_beside_what_cannot_be_read() -> None:
    answers = {GPU_QUERY[0]: gpus(4).replace(", 100, 1004,", ", 4294967, 1004,")}
    batch = polled(answers)
    assert batch.events[0].value["gpus"] == ["0", "2"]
    assert batch.account.reasons == {"out_of_range": 1, "no_utilization": 1}
    assert len(batch.account.said) == 2


def test_a_gpu_that_no_allocation_names_is_of_the_slurm_job_that_computes_on_it() -> None:
    processes = "".join(
        f"GPU-7a000000-0000-0000-0000-00000000000{gpu}, {pid}\n" for gpu, pid in ((0, 17), (1, 20), (2, 18))
    )
    answers = {GPU_QUERY[0]: gpus(0), PROCESS_QUERY[0]: processes}
    assert [event.value.get("job_id") for event in polled(answers, slurm_processes=True).events] == [
        "1041",
        None,
        "1042",
    ]
    assert [event.value.get("job_id") for event in polled(answers).events] == [None]


def test_what_an_allocation_says_counts_more_than_processes(tmp_path: Path) -> None:
    answers = {
        GPU_QUERY[0]: gpus(0),
        PROCESS_QUERY[0]: "GPU-7a000000-0000-0000-0000-000000000000, 17\n",
    }
    found = polled(answers, slurm_processes=True, allocations_file=NvidiaSmiWorld(tmp_path).allocations)
    assert [event.value.get("job_id") for event in found.events] == ["train-a", "train-b", None]


@pytest.mark.parametrize(
    ("pids", "job"),
    [
        ((17,), "1041"),
        ((17, 17), "1041"),
        ((18,), "1042"),
        ((19,), "1043"),
        ((20, 22), ""),
        ((17, 18), ""),
        ((21,), ""),
    ],
)
def test_the_job_of_processes(pids: Sequence[int], job: str) -> None:
    assert job_of(pids, GROUPS.__getitem__) == job


def test_control_groups_of_processes_that_are_and_are_not() -> None:
    assert b":/" in group_of(os.getpid())
    assert group_of(2**22 + 1) == b""


@pytest.mark.parametrize(
    "value", ["[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "", "nan", "inf", "-1"]
)
def test_a_gpu_that_does_not_tell_its_use_is_not_sampled(value: str) -> None:
    batch = polled({GPU_QUERY[0]: f"0, GPU-1, Tesla, {value}, 5, 7\n1, GPU-2, Tesla, 50, {value}, {value}\n"})
    (event,) = batch.events
    assert (event.value["gpus"], event.value["util_ratio"]) == (["1"], [0.5])
    assert not {"memory_used_mib", "power_w"} & set(event.value)
    assert len(batch.account.said) == 1


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU0000:83:00.0: Unknown Error",
        "1, 2, 3",
        '"',
        "\x1b[2J",
    ],
)
def test_a_line_of_another_form_is_left_out_and_said(line: str) -> None:
    batch = polled({GPU_QUERY[0]: f"{line}\n{gpus(0)}"})
    assert len(batch.events) == 1
    assert batch.account.said[0].startswith("expected 6 values, got ")
    assert "\x1b" not in batch.account.said[0]


def test_without_gpus_there_is_no_source() -> None:
    with pytest.raises(SourceUnavailableError, match=r"^nvidia-smi names no GPU$"):
        polled({GPU_QUERY[0]: "\n"})


def test_without_a_driver_it_says_so(tmp_path: Path) -> None:
    world = NvidiaSmiWorld(tmp_path)
    world.turn(0)
    world.go_away()
    with pytest.raises(
        SourceUnavailableError, match=r"failed \(9\): NVIDIA-SMI has failed because it couldn't"
    ):
        list(world.collector().poll(None, T0_MS))


@given(st.binary(max_size=200))
def test_any_answer_is_read_without_an_error(answer: bytes) -> None:
    account = Account()
    for reading in read_gpus(answer, (), account):
        assert reading.util_ratio is not None
    read_processes(answer, account)
    assert all(mean is None or 0 <= mean < math.inf for mean in read_means(answer))
