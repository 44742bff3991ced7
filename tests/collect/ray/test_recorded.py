"""The collector on what a real Ray answered: GPU-time equals what Ray's own last answers say, however much of it was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from streams.collect.ray.api import ACTORS, GROUPS, JOBS, NODES, TASKS
from tests.collect.ray.world import RayWorld, recorded
from tests.collect.recordings import EVIL
from tests.collect.world import Log, watched
from tests.harness import meter
from tests.oracle.model import Line, Tables

NANO_PER_GPU_MS: Final = 1_000  # $3.60 an hour
PRICE: Final = Line(
    "prices",
    {
        "id": "p1",
        "source": "test",
        "time_ms": 1_600_000_000_000,
        "sku": "gpu",
        "component": "gpu",
        "usd": "3.60",
        "per": "gpu_hour",
        "effective_ms": 1_600_000_000_000,
    },
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RayWorld]:
    found = RayWorld(tmp_path, every=1)
    yield found
    found.close()


def collect(world: RayWorld, states: Iterable[int]) -> Log:
    """The events of one collector that looks at these states."""
    # The machine of the recording was so busy that its dashboard was up to 17 s behind.
    return watched(world, world.collector(), states, may_skip="see dashboard_delay_s")


def tables_of(log: Log, world: RayWorld) -> Tables:
    lines = [PRICE, *(Line(topic, dict(value)) for topic, value in log.events)]
    return meter(lines, as_of_ms=world.turn(world.states - 1))


def last() -> dict[str, Any]:
    answers: dict[str, Any] = recorded()[-1]["answers"]
    return answers


def named(answers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The jobs of an answer by what their entry points do."""
    words = {
        "sleep(6)": "ok",
        "sys.exit(3)": "bad",
        "sleep(4)'": "again",
        "remove_placement_group": "groups",
        "A100": "lost",
        "sleep(600)": "stopped",
    }
    found = {}
    for job in answers[JOBS]:
        for word, name in words.items():
            if word in (job["entrypoint"] or ""):
                found[name] = job
        if job["type"] == "DRIVER":
            found["driver"] = job
        elif "'pass'" in job["entrypoint"]:
            found["broken" if job["status"] == "FAILED" else "waits"] = job
    return found


def gpu_ms_of_actors(job: dict[str, Any]) -> float:
    """GPUs x ms of a job's supervisor and of its actors outside of groups, by Ray's last answer."""
    total: float = 0
    for actor in last()[ACTORS]["data"]["actors"].values():
        supervises = actor["name"] == f"_ray_internal_job_actor_{job['submission_id']}"
        if supervises or (actor["jobId"] == job["job_id"] and not actor.get("placementGroupId")):
            end_ms = min(actor["endTime"] or job["end_time"], job["end_time"])
            if actor["startTime"]:
                total += actor["requiredResources"].get("GPU", 0) * (end_ms - actor["startTime"])
    return total


def gpu_ms_of_tasks(job: dict[str, Any]) -> float:
    found: float = sum(
        task["required_resources"].get("GPU", 0) * (task["end_time_ms"] - task["start_time_ms"])
        for task in last()[TASKS]["data"]["result"]["result"]
        if task["job_id"] == job["job_id"] and not task["placement_group_id"]
    )
    return found


@pytest.mark.parametrize("seen", ["all", "every fifth", "the last only"])
def test_gpu_time_is_that_of_rays_own_times(world: RayWorld, seen: str) -> None:
    states = {"all": range(world.states), "every fifth": range(2, world.states, 5), "the last only": ()}[seen]
    tables = tables_of(collect(world, [*states, world.states - 1]), world)
    costs: dict[str, int] = {}
    for key, row in tables.ledger.items():
        costs[key.job_id] = costs.get(key.job_id, 0) + row.cost_nano
    jobs = named(last())
    for name in ("ok", "stopped", "lost", "driver"):
        job = jobs[name]
        job_id = job["submission_id"] or f"{job['job_id']}-{job['start_time']}"
        gpu_ms = gpu_ms_of_actors(job) + gpu_ms_of_tasks(job)
        assert gpu_ms > 0, name
        assert costs[job_id] == round(gpu_ms * NANO_PER_GPU_MS), name
    swept = gpu_ms_of_actors(jobs["bad"]) + gpu_ms_of_actors(jobs["again"])
    assert costs["sweep-1"] == round(swept * NANO_PER_GPU_MS)
    assert not tables.dead


def test_a_group_is_held_from_its_creation_until_it_is_seen_to_be_gone(world: RayWorld) -> None:
    log = collect(world, range(world.states))
    job = named(last())["groups"]
    events = [value for _, value in log.events if value.get("job_id") == job["submission_id"]]
    (group,) = [
        each for each in last()[GROUPS]["data"]["result"]["result"] if each["creator_job_id"] == job["job_id"]
    ]
    stats = group["stats"]
    created_us = int(stats["creation_request_received_ns"]) // 1000 + int(
        stats["end_to_end_creation_latency_us"]
    )
    started = next(value for value in events if value["type"] == "started")
    assert (started["time_ms"], started["gpu_count"]) == (created_us // 1000, 2)
    gone_ms = next(
        look["time_ms"] // 1000 * 1000
        for look in recorded()
        for each in look["answers"][GROUPS]["data"]["result"]["result"]
        if each["placement_group_id"] == group["placement_group_id"] and each["state"] == "REMOVED"
    )
    counts = {
        value["time_ms"]: value["gpu_count"] for value in events if value["type"] in {"started", "scaled"}
    }
    assert counts[gone_ms] == counts[max(at_ms for at_ms in counts if at_ms < gone_ms)] - 2
    assert max(counts.values()) == 3.5  # the group, the actor outside of it and the task


def test_jobs_are_described_and_end_as_ray_says(world: RayWorld) -> None:
    log = collect(world, range(world.states))
    jobs, tables = named(last()), tables_of(log, world)
    states = {job_id: row.state for (job_id, _), row in tables.attempts.items() if job_id != "sweep-1"}
    assert {
        name: states.get(job["submission_id"])
        for name, job in jobs.items()
        if name not in {"bad", "again", "driver"}
    } == {
        "ok": "completed",
        "groups": "completed",
        "lost": "failed",
        "stopped": "cancelled",
        "broken": "failed",
        "waits": "queued",
    }
    assert {
        attempt: row.state for (job_id, attempt), row in tables.attempts.items() if job_id == "sweep-1"
    } == {
        1: "failed",
        2: "completed",
    }
    values = [value for _, value in log.events]
    reasons = {value["job_id"]: value["reason"] for value in values if "reason" in value}
    assert reasons == {
        "sweep-1": "unknown",
        jobs["broken"]["submission_id"]: "user_error",
        jobs["lost"]["submission_id"]: "unknown",
    }
    ok = next(value for value in values if value.get("job_id") == jobs["ok"]["submission_id"])
    assert (ok["owner"], ok["team"], ok["project"]) == ("ada", "vision", EVIL)


def test_nodes_are_paid_from_their_start_to_their_end(world: RayWorld) -> None:
    log = collect(world, range(world.states))
    nodes = {node["node_name"]: node for node in last()[NODES]["data"]["result"]["result"]}
    told = [
        (value["node"], value["type"], value["time_ms"], value.get("gpu_count"), value.get("gpu_type"))
        for _, value in log.events
        if "node" in value
    ]
    assert sorted(told) == [
        ("n1", "provisioned", nodes["n1"]["start_time_ms"], 4, "H100"),
        ("n2", "provisioned", nodes["n2"]["start_time_ms"], 2, "A100-40"),
        ("n2", "terminated", nodes["n2"]["end_time_ms"], None, None),
    ]
