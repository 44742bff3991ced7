"""Records of Slurm that mean GPUs and do not say how many, or when: each is named with what mends it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from streams.collect.slurm.attempts import parts_of
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.history import history
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import accounted_jobs
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
    assert "job 2 holds 4 gres/gcu, and nothing says how many GPUs one is" in part.account.said
    assert counted(part.account) == {"unknown_gres": 1, "no_times": 1}


def test_a_backfill_leaves_out_what_the_meter_would_refuse() -> None:
    answer = json.dumps({"jobs": [{**ended(GPUS), "account": "idle"}]}).encode()
    (part, *_) = history(Options(), lambda _: answer, T_S, T_S + 3600)
    assert (part.events, counted(part.account)) == ([], {"reserved_name": 1})


def numbered(number: int, submit_s: int, user: str = "ada", restarts: int = 0, **more: Any) -> dict[str, Any]:
    found = ended(GPUS, submission=submit_s, start=submit_s + 10, end=submit_s + 70)
    return found | {"job_id": number, "restart_cnt": restarts, "user": user} | more


DAY_S: Final = 86_400


@pytest.mark.parametrize(
    ("later", "reused"),
    [
        (numbered(17, T_S + DAY_S), 1),
        (numbered(900, T_S + DAY_S, "bob"), 0),
        (numbered(901, T_S + DAY_S), 0),
        (numbered(17, T_S + DAY_S, restarts=1), 0),  # requeued
        (numbered(17, T_S + DAY_S, array={"job_id": 3, "task_id": 4}), 0),
        (numbered(17, T_S + 60), 0),
        (numbered(2**26 + 17, T_S + DAY_S), 0),  # of another cluster of a federation
    ],
)
def test_numbers_that_slurm_gives_again_are_said(later: dict[str, Any], reused: int) -> None:
    """princeton-ddss/blackfish#484, facebookincubator/submitit#1660: two jobs would be one."""
    jobs = [numbered(900, T_S), later]

    def ask(command: Sequence[str]) -> bytes:
        return json.dumps({"jobs": jobs if "sacct" in command[0] else []}).encode()

    options = Options.model_validate({"since": "2026-11-25T15:00:00Z"})
    faults = [said for part in history(options, ask, T_S - 60, T_S + 300) for said in part.account.said]
    assert ["counts from the beginning again" in each for each in faults] == [True] * reused
    collector = SlurmCollector(options, ask)
    batches = list(collector.poll(None, (T_S + 200) * 1000))
    account = counted(list(collector.poll(batches[-1].position, (T_S + 2 * DAY_S) * 1000))[-1].account)
    assert account.get("numbers_reused", 0) == reused


def test_a_number_of_another_user_is_no_attempt_of_the_same_job() -> None:
    """Older accounting does not count restarts, and keeps jobs of the same number for ever."""
    before, now = (
        accounted_jobs(json.dumps({"jobs": [each]}).encode()).jobs[0]
        for each in (
            numbered(17, T_S, "ada", restart_cnt=None),
            numbered(17, T_S + DAY_S, "bob", restart_cnt=None),
        )
    )
    again = now._replace(user="ada")
    assert [each.attempt for each in parts_of([before, now], {})] == [1, 1]
    assert [each.attempt for each in parts_of([before, again], {})] == [1, 2]


@pytest.mark.parametrize("holds", [True, False])
def test_suspensions_of_the_past_are_said_where_they_are_not_to_be_paid(holds: bool) -> None:
    job = ended(GPUS, suspended=20)

    def ask(command: Sequence[str]) -> bytes:
        return json.dumps({"jobs": [job]}).encode()

    options = Options.model_validate({"since": "2026-11-25T15:00:00Z", "suspended_hold_gpus": holds})
    (part,) = history(options, ask, T_S - 60, T_S + 300)
    assert [said.startswith("job 2 was suspended for 20 s") for said in part.account.said] == [True] * (
        not holds
    )
    assert len(part.events) == 3
