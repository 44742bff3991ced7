"""What each state of Slurm becomes: states that a trial cluster does not show are put into records that it gave."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from streams.collect.slurm.attempts import by_job, parts_of
from streams.collect.slurm.events import SeenAttempt, events_of, job_id_of
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import JobRecord, accounted_jobs, queued_jobs
from streams.collect.slurm.tres import GpusOfNode
from tests.collect.slurm.test_hostile import text
from tests.collect.slurm.world import recorded
from tests.source_cases import source_case

OPTIONS: Final = Options()


def running(**changes: Any) -> JobRecord:
    """The job `ok` of the recording while it runs: 2 GPUs of n1."""
    for look in recorded("22.05"):
        for job in queued_jobs(text(look["squeue"])).jobs:
            if job.name == "ok" and job.states == {"RUNNING"}:
                return job._replace(**changes)
    raise AssertionError("the recording has no such job")


def told(record: JobRecord, *, is_live: bool = True, options: Options = OPTIONS) -> dict[str, dict[str, Any]]:
    """Type of the event (with `.nodes` where it has them) -> its fields."""
    events = events_of(SeenAttempt(record, 1, is_live), options, 0)
    return {
        event.value["type"] + (".nodes" if "nodes" in event.value else ""): dict(event.value)
        for _, event in events
    }


def test_whoever_cancelled_a_job_it_is_cancelled() -> None:
    document = json.loads(text(recorded("24.11")[-1]["sacct"]))
    for job in document["jobs"]:
        job["state"]["current"] = ["CANCELLED by 1000"]
    assert {state for job in accounted_jobs(json.dumps(document).encode()).jobs for state in job.states} == {
        "CANCELLED"
    }


def test_gpus_of_a_site_that_tracks_them_by_type_are_metered_from_squeue_and_sacct() -> None:
    answer = (source_case("09-slurm-typed-tres") / "squeue.json").read_bytes()
    listed = {str(job.raw_id): job for job in queued_jobs(answer).jobs}
    for is_live in (True, False):
        found = {
            name: (event["gpu_count"], event.get("gpu_type", ""))
            for name, job in listed.items()
            for event in [told(job._replace(nodes=job.nodes if is_live else {}), is_live=is_live)["started"]]
        }
        assert found == {"101": (1, "nvidia_geforce_rtx_2080_ti"), "102": (2, "a100"), "103": (3, "")}


def test_gpus_tracked_by_type_alone_are_metered_from_sacct() -> None:
    answer = text(recorded("24.11")[-1]["sacct"])
    plain = [job for job in accounted_jobs(answer).jobs if job.allocated.get("gres/gpu")]
    document = json.loads(answer)
    for job in document["jobs"]:
        held = [each for each in job["tres"]["allocated"] if not each["name"].startswith("gpu:")]
        names = {"gpu": "gpu:h100"}
        job["tres"]["allocated"] = [each | {"name": names.get(each["name"], each["name"])} for each in held]
    typed = [
        job for job in accounted_jobs(json.dumps(document).encode()).jobs if "gres/gpu:h100" in job.allocated
    ]
    assert [gpus_told(job) for job in typed] == [gpus_told(job) for job in plain]
    assert len(typed) > 3


def gpus_told(job: JobRecord) -> list[Any]:
    return [each.get("gpu_count") for each in told(job, is_live=False).values()]


def states(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("state", "type_", "reason"),
    [
        ("COMPLETED", "completed", None),
        ("CANCELLED", "cancelled", None),
        ("REVOKED", "cancelled", None),
        ("FAILED", "failed", "unknown"),
        ("TIMEOUT", "failed", "timeout"),
        ("DEADLINE", "failed", "timeout"),
        ("NODE_FAIL", "failed", "node_failure"),
        ("BOOT_FAIL", "failed", "node_failure"),
        ("OUT_OF_MEMORY", "failed", "out_of_memory"),
        ("PREEMPTED", "preempted", "preemption"),
    ],
)
@pytest.mark.parametrize("is_live", [True, False])
def test_an_end(state: str, type_: str, reason: str | None, is_live: bool) -> None:
    record = running(states=states(state))
    record = record._replace(end_s=record.start_s + 7, nodes={})
    events = told(record, is_live=is_live)
    assert set(events) == {"queued", "started", type_}
    assert events[type_]["time_ms"] == (record.start_s + 7) * 1000
    assert events[type_].get("reason") == reason


def test_a_requeue_is_an_end_to_sacct_and_no_state_to_squeue() -> None:
    record = running()
    ended = record._replace(states=states("PENDING", "REQUEUED"), end_s=record.start_s + 7)
    assert told(ended, is_live=False)["failed"]["reason"] == "unknown"
    assert told(ended) == {}


@pytest.mark.parametrize(
    ("ran_s", "type_"), [(47 * 60, "failed"), (48 * 60, "preempted"), (3600, "preempted")]
)
def test_a_requeue_late_in_a_jobs_time_is_none_of_a_failure(ran_s: int, type_: str) -> None:
    record = running(states=states("PENDING", "REQUEUED"), limit_s=3600)
    assert type_ in told(record._replace(end_s=record.start_s + ran_s), is_live=False)
    without = record._replace(end_s=record.start_s + ran_s, limit_s=0)
    assert "failed" in told(without, is_live=False)


def test_events_say_where_a_job_was_submitted_from() -> None:
    assert {
        each["work_dir"] for each in told(running(work_dir="/home/ada/llama")).values() if "owner" in each
    } == {"/home/ada/llama"}
    assert not any("work_dir" in each for each in told(running(work_dir="")).values())


def test_what_is_completing_tells_nothing_yet() -> None:
    assert told(running(states=states("COMPLETING"))) == {}
    assert told(running(states=states("PENDING", "COMPLETING"), restarts=1)) == {}


def test_nodes_that_boot_for_a_job_are_paid_from_their_allocation() -> None:
    record = running()
    booting = told(record._replace(states=states("RUNNING", "CONFIGURING")))
    assert set(booting) == {"queued", "allocated"}
    assert booting["allocated"]["gpu_count"] == 2
    # When they are up, Slurm puts the start there.
    later = told(record._replace(start_s=record.start_s + 90))
    assert later["started"]["time_ms"] - booting["allocated"]["time_ms"] == 90_000
    assert later["started"]["attempt"] == booting["allocated"]["attempt"] == 1


def test_the_start_that_slurm_expects_is_none() -> None:
    record = running(states=states("PENDING"), allocated={}, nodes={})
    assert set(told(record)) == {"queued"}


def test_a_suspended_job_holds_its_gpus_unless_said_otherwise() -> None:
    record = running(states=states("SUSPENDED"))
    record = record._replace(suspend_s=record.start_s + 5)
    assert told(record)["suspended"]["holds_gpus"] is True
    assert told(record, options=Options(suspended_hold_gpus=False))["suspended"]["holds_gpus"] is False
    assert (
        told(record._replace(states=states("RUNNING")))["resumed"]["time_ms"] == (record.start_s + 5) * 1000
    )


def test_gpus_are_named_by_node_and_type() -> None:
    events = told(running(), options=Options(gpu_types={"h100": "H100"}))
    assert events["started"]["gpu_type"] == "H100"
    assert events["scaled.nodes"]["nodes"] == {"n1": 2}
    assert events["scaled.nodes"]["time_ms"] == events["started"]["time_ms"]


def test_a_type_that_only_squeue_knows_comes_with_the_nodes() -> None:
    events = told(running(allocated={"cpu": 1, "gres/gpu": 2}))
    assert "gpu_type" not in events["started"]
    assert events["scaled.nodes"]["gpu_type"] == "h100"


def test_several_types_have_no_name() -> None:
    nodes = {"n1": [GpusOfNode("h100", 1, ("0",)), GpusOfNode("a100", 1, ("1",))]}
    events = told(running(nodes=nodes, allocated={"gres/gpu": 2, "gres/gpu:h100": 1, "gres/gpu:a100": 1}))
    assert "gpu_type" not in events["started"]
    assert "gpu_type" not in events["scaled.nodes"]


def test_shares_of_a_gpu_are_fractions() -> None:
    events = told(running(nodes={}, allocated={"gres/shard": 3}), options=Options(shards_per_gpu=8))
    assert events["started"]["gpu_count"] == 0.375


def test_jobs_without_gpus_are_left_out_unless_asked_for() -> None:
    record = running(nodes={}, allocated={"cpu": 4, "mem": 8192, "node": 1}, requested={}, asks_gpus=False)
    assert told(record) == {}
    started = told(record, options=Options(include_cpu_only=True))["started"]
    assert (started["gpu_count"], started["cpu_count"], started["memory_gib"]) == (0, 4, 8)


def test_fields_of_a_partition_are_those_of_its_jobs() -> None:
    options = Options(
        price_fields={"region": "eu", "purchase": "on_prem"},
        partition_price_fields={"batch": {"purchase": "spot"}},
    )
    started = told(running(), options=options)["started"]
    assert (started["region"], started["purchase"]) == ("eu", "spot")


def test_ids_are_those_that_squeue_shows() -> None:
    assert job_id_of(running(raw_id=17), OPTIONS) == "17"
    assert job_id_of(running(array=(17, 3)), OPTIONS) == "17_3"
    assert job_id_of(running(het=(17, 1)), Options(job_id_prefix="a/")) == "a/17+1"
    assert job_id_of(running(raw_id=20, array=(17, 3)), Options(raw_job_ids=True)) == "20"


def test_attempts_are_counted_where_slurm_does_not() -> None:
    """Two runs, the first with a change of size, as sacct of 22.05 and as later ones have it."""
    first = running(restarts=None)
    start_s = first.start_s
    for start_of_rest in (start_s, start_s + 10):
        resized = first._replace(states=states("RESIZING"), end_s=start_s + 10)
        rest = first._replace(
            states=states("PREEMPTED"), submit_s=start_s + 10, start_s=start_of_rest, end_s=start_s + 20
        )
        again = first._replace(states=states("COMPLETED"), submit_s=start_s + 30, start_s=start_s + 40)
        (records,) = by_job([again, rest, resized]).values()
        parts = list(parts_of(records, {}))
        assert [(part.attempt, part.follows) for part in parts] == [(1, False), (1, True), (2, False)]
        scaled = told(rest, is_live=False) if start_of_rest == start_s else None
        if scaled is not None:
            assert scaled["scaled"]["time_ms"] == (start_s + 10) * 1000


def test_what_is_requested_stands_where_it_is_held() -> None:
    job = running(requested={"cpu": 4, "gres/gpu": 2}, allocated={"cpu": 4, "gres/gpu": 2})
    assert told(job)["started"]["gpus_requested"] == 2
    without = running(requested={"cpu": 4}, allocated={"cpu": 4, "gres/gpu": 2})
    assert "gpus_requested" not in told(without)["started"]
