"""What a run knows from its launcher: job, attempt, rank, GPUs, owner."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
import trainfare
from trainfare import attempts, environment

from tests.sdk.endpoint import FakeEndpoint
from tests.sdk.scripts import SDK


@pytest.mark.parametrize(
    ("environ", "job_id"),
    [
        ({"TRAINFARE_JOB_ID": "run-7", "SLURM_JOB_ID": "12"}, "run-7"),
        ({"SLURM_JOB_ID": "12"}, "12"),
        ({"SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}, "12_3"),
        ({"AWS_BATCH_JOB_ID": "b-1"}, "b-1"),
        ({"TRAINING_JOB_NAME": "sage"}, "sage"),
    ],
)
def test_the_job_is_the_launcher_s(environ: Mapping[str, str], job_id: str) -> None:
    assert environment.job_id_of(environ) == job_id


def test_without_a_launcher_each_process_is_a_job() -> None:
    assert environment.job_id_of({"TRAINFARE_NODE": "gpu-01"}).startswith("gpu-01-")


@pytest.mark.parametrize(
    ("environ", "is_main_process"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"RANK": "8", "LOCAL_RANK": "0"}, False),
        ({"RANK": "0", "SLURM_PROCID": "1"}, True),
        ({"SLURM_PROCID": "1"}, False),
        ({"LOCAL_RANK": "1"}, False),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
        ({"OMPI_COMM_WORLD_RANK": "2"}, False),
        ({"RANK": ""}, True),
    ],
)
def test_of_many_processes_the_main_one_reports(environ: Mapping[str, str], is_main_process: bool) -> None:
    assert environment.is_main_process(environ, {}) is is_main_process


@pytest.mark.parametrize(
    ("is_initialized", "rank", "is_main_process"), [(True, 0, True), (True, 3, False), (False, 3, True)]
)
def test_a_group_of_pytorch_knows_the_rank(is_initialized: bool, rank: int, is_main_process: bool) -> None:
    group = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: is_initialized, get_rank=lambda: rank
    )
    assert environment.is_main_process({}, {"torch.distributed": group}) is is_main_process
    assert environment.is_main_process({"RANK": "0"}, {"torch.distributed": object()})


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({}, None),
        ({"SLURM_GPUS": "16", "SLURM_GPUS_ON_NODE": "8"}, 16),
        ({"SLURM_GPUS_ON_NODE": "8", "SLURM_JOB_NUM_NODES": "4"}, 32),
        ({"CUDA_VISIBLE_DEVICES": "0,1,3"}, 3),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, None),
    ],
)
def test_gpus_are_the_launcher_s(environ: Mapping[str, str], gpus: int | None) -> None:
    assert environment.gpus_of(environ) == gpus


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({}, None),
        ({"SLURM_GPUS_ON_NODE": "8", "SLURM_JOB_NUM_NODES": "4", "WORLD_SIZE": "4"}, 32),
        ({"WORLD_SIZE": "64", "LOCAL_WORLD_SIZE": "8"}, 64),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, 4),
        ({"CUDA_VISIBLE_DEVICES": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, 4),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, None),  # two each
        ({"CUDA_VISIBLE_DEVICES": "", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, None),
    ],
)
def test_what_is_requested_is_a_gpu_for_each_process(environ: Mapping[str, str], gpus: int | None) -> None:
    assert environment.requested_of(environ) == gpus
    assert environment.fields_of(environ).get("gpus_requested") == gpus


@pytest.mark.parametrize(
    ("environ", "is_sampled"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, False),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, True),
        ({"CUDA_VISIBLE_DEVICES": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, False),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_LOCALID": "1", "SLURM_GPUS_PER_TASK": "2"}, False),
        ({"LOCAL_RANK": "1", "NVIDIA_VISIBLE_DEVICES": "all"}, True),
        ({"LOCAL_RANK": "1"}, False),
    ],
)
def test_gpus_that_two_processes_see_are_sampled_by_one(environ: Mapping[str, str], is_sampled: bool) -> None:
    assert environment.is_sampled_by_another(environ) is is_sampled


def test_fields_come_from_the_environment_unless_they_are_said(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_ACCOUNT": "vision",
        "SLURM_CLUSTER_NAME": "train-a",
        "SLURM_GPUS_ON_NODE": "8",
        "TRAINFARE_GPU_TYPE": "H100",
        "TRAINFARE_URL": endpoint.url,
        "TRAINFARE_TOKEN": "t",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with trainfare.run(team="speech"):
        pass
    started = next(iter(endpoint.events.values()))
    wanted = {
        "job_id": "12",
        "owner": "ada",
        "team": "speech",
        "cluster": "train-a",
        "gpu_count": 8,
        "gpu_type": "H100",
    }
    assert {name: started[name] for name in wanted} == wanted
    assert endpoint.tokens == {"Bearer t"}


def test_a_rank_other_than_the_main_process_sends_no_lifecycle(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    with trainfare.run("run-7", url=endpoint.url) as found:
        found.checkpoint()
    assert not endpoint.events


def test_it_can_be_switched_off(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_ENABLED", "0")
    with trainfare.run("run-7", url=endpoint.url) as found:
        found.checkpoint()
    assert not endpoint.events
    assert found.fault == "disabled by TRAINFARE_ENABLED"


# -- attempts ------------------------------------------------------------------------------------------------


def test_the_next_attempt_has_the_next_number(endpoint: FakeEndpoint) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), trainfare.run("run-7", url=endpoint.url):
            raise ValueError("x")
    for job_id in ("run-7", "run-8"):
        with trainfare.run(job_id, url=endpoint.url):
            pass
    started = [
        (each["job_id"], each["attempt"]) for each in endpoint.events.values() if each["type"] == "started"
    ]
    assert started == [("run-7", 1), ("run-7", 2), ("run-7", 3), ("run-8", 1)]


@pytest.mark.parametrize(
    ("name", "value", "attempt"),
    [
        ("TRAINFARE_ATTEMPT", "7", 7),
        ("SLURM_RESTART_COUNT", "2", 3),
        ("TORCHELASTIC_RESTART_COUNT", "0", 1),
        ("AWS_BATCH_JOB_ATTEMPT", "2", 2),
        ("TRAINFARE_ATTEMPT", "many", 1),
    ],
)
def test_a_launcher_knows_the_attempt(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, attempt: int
) -> None:
    monkeypatch.setenv(name, value)
    assert attempts.next_attempt("run-7") == attempt
    assert attempts.current_attempt("run-7") == attempt


def test_a_launcher_that_begins_to_count_again_does_not_repeat_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert [attempts.next_attempt("run-7") for _ in range(2)] == [1, 2]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert attempts.next_attempt("run-7") == 3
    assert attempts.current_attempt("run-7") == 3


def test_many_that_count_at_once_have_numbers_of_their_own(tmp_path: Path) -> None:
    text = "import sys\nfrom trainfare import attempts\nsys.stdin.readline()\nprint(attempts.next_attempt('run-7'))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            env={**os.environ, "PYTHONPATH": str(SDK)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(int(process.communicate(timeout=60)[0]) for process in processes) == [1, 2, 3, 4]


def test_a_process_that_stopped_while_it_counted_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_LOCK_AGAIN_S", 0.0)
    assert attempts.next_attempt("run-7") == 1
    (lock,) = (tmp_path / "state").glob("*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert attempts.next_attempt("run-7") == 2


def test_a_directory_that_cannot_be_written_means_the_first_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRAINFARE_STATE_DIR", str(tmp_path / "file" / "folder"))
    assert attempts.next_attempt("run-7") == 1


def test_the_run_and_the_directory_are_the_launcher_s() -> None:
    trackers = {"WANDB_RUN_ID": "w1", "MLFLOW_RUN_ID": "m1"}
    assert environment.fields_of(trackers)["run_id"] == "w1"
    assert environment.fields_of({**trackers, "TRAINFARE_RUN_ID": "llama-a"})["run_id"] == "llama-a"
    found = environment.fields_of({"SLURM_SUBMIT_DIR": "/é" * 100})
    assert found["work_dir"] == "/é" * 85 + "/"  # what the meter takes, between two characters
    assert "run_id" not in found
