"""Records of Slurm that mean GPUs and do not say how many, or when: each is named with what mends it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.history import history
from streams.collect.slurm.options import Options
from tests.collect.accounts import Counts, accounted, counted

T_S: Final = 1_795_622_400
NOW_MS: Final = (T_S + 300) * 1000


def queued(tres: str = "cpu=4,gres/gpu=2", **changes: Any) -> dict[str, Any]:
    times = {"submit_time": T_S, "start_time": T_S, "end_time": 0}
    return {"job_id": 1, "job_state": "RUNNING", **times, "tres_alloc_str": tres, "nodes": "n1", **changes}


def ended(tres: list[dict[str, Any]], state: str = "COMPLETED", **times: Any) -> dict[str, Any]:
    return {
        "job_id": 2,
        "state": {"current": state},
        "time": {"submission": T_S, "start": T_S, "end": T_S + 60} | times,
        "tres": {"allocated": tres, "requested": []},
    }


def looked(queue: list[Any], past: list[Any], nodes: list[Any] | None = None, **options: Any) -> Counts:
    def ask(command: Any) -> bytes:
        jobs = past if command[0] == "sacct" else queue
        return json.dumps({"nodes": nodes} if command[0] == "sinfo" else {"jobs": jobs}).encode()

    more = {} if nodes is None else {"nodes_command": ["sinfo"]}
    given = Options.model_validate({"since": "2026-11-25T15:00:00Z", **more, **options})
    return counted(accounted(SlurmCollector(given, ask), NOW_MS))


GPUS: Final = [{"type": "gres", "name": "gpu", "count": 2}]
ENERGY: Final = {"type": "energy", "name": "", "count": 2**64 - 2}


@pytest.mark.parametrize(
    ("job", "reasons"),
    [
        (ended([*GPUS, ENERGY]), {"metered": 1}),
        (ended(GPUS, end=0), {"no_times": 1}),
        (ended(GPUS, start=0), {"no_times": 1}),
        (ended(GPUS, "FAILED", start={"set": False, "infinite": False, "number": 0}), {"no_times": 1}),
        (ended([], "CANCELLED", start=0), {"no_gpu": 1}),
        (ended(GPUS, "RUNNING", end=0), {"metered": 1}),
    ],
)
def test_a_job_that_held_gpus_says_since_when_and_until_when(job: dict[str, Any], reasons: Counts) -> None:
    assert looked([], [job]) == reasons


@pytest.mark.parametrize(
    ("job", "reasons"),
    [
        (queued("cpu=4", tres_per_node="gres/gpu:2"), {"uncounted_gpus": 1}),
        (queued("cpu=4", tres_per_task="gres:gpu:h100:1"), {"uncounted_gpus": 1}),
        (queued("cpu=4", tres_per_job="gres/gpumem:1"), {"no_gpu": 1}),
        (queued("", job_state="PENDING", start_time=0, tres_per_node="gres/gpu:2"), {"no_gpu": 1}),
        (queued("cpu=4,gres/gcu=4"), {"unknown_gres": 1}),
        (queued("cpu=4,gres/craynetwork=4"), {"no_gpu": 1}),
    ],
)
def test_gpus_that_slurm_does_not_count_are_named(job: dict[str, Any], reasons: Counts) -> None:
    assert looked([job], []) == reasons


def test_shards_are_said_until_the_options_say_how_many_a_gpu_has() -> None:
    """Each counts as a GPU without."""
    assert looked([queued("cpu=4,gres/shard=4")], []) == {"unknown_gres": 1}
    assert looked([queued("cpu=4,gres/shard=4")], [], shards_per_gpu=1) == {"metered": 1}


def test_gpus_of_nodes_that_slurm_does_not_count_are_named() -> None:
    nodes = [
        {"name": "n1", "state": "IDLE", "tres": "cpu=8,gres/gpu=4", "gres": "gpu:h100:4"},
        {"name": "n2", "state": "IDLE", "tres": "cpu=8", "gres": "gpu:h100:8(S:0-1)"},
        {"name": "n3", "state": "IDLE", "tres": "cpu=8", "gres": "craynetwork:1"},
    ]
    assert looked([], [], nodes) == {"metered": 1, "uncounted_gpus": 1, "no_gpu": 1}


def test_a_backfill_names_what_it_does_not_read() -> None:
    jobs = [ended([{"type": "gres", "name": "gcu", "count": 4}]), ended(GPUS, end=0)]
    answer = json.dumps({"jobs": jobs}).encode()
    (part, *_) = history(Options(), lambda _: answer, T_S, T_S + 3600)
    assert not part.events
    assert "job 2 holds 4 gres/gcu, and nothing says how many GPUs one is" in part.faults
