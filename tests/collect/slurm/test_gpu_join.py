"""Slurm's jobs and the exporters' GPUs meet under one id, by allocations and by the label that prolog and epilog write."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams.collect.allocations import Allocation, stored_allocations
from streams.collect.collector import CollectedEvent, Position
from streams.collect.dcgm.collector import DcgmCollector
from streams.collect.dcgm.options import Options
from streams.collect.slurm.collector import open_collector
from tests.collect.slurm.world import SlurmWorld, recorded


class Running(NamedTuple):
    """An array's task that runs with GPUs: what Slurm's collector says of it, and Slurm's own number."""

    allocation: Allocation
    started: CollectedEvent
    raw_id: str


def running_task(world: SlurmWorld, **options: Any) -> Running:
    """Play the recorded cluster until a task runs."""
    collector, position = open_collector(world.options(**options)), None
    started: list[CollectedEvent] = []
    for state in range(world.states):
        found: Position | None = position
        for batch in collector.poll(found, world.turn(state)):
            position = batch.position
            started += [event for event in batch.events if event.value["type"] == "started"]
        tasks = {
            str(job["job_id"]): f"{job['array_job_id']}_{job['array_task_id']}"
            for job in recorded("22.05")[state]["squeue"]["jobs"]
            if job["array_job_id"] and job["array_task_id"] is not None
        }
        ids = {raw_id if options.get("raw_job_ids") else shown: raw_id for raw_id, shown in tasks.items()}
        for each in stored_allocations(world.allocations) if world.allocations.exists() else ():
            if each.until_ms is None and each.job_id in ids:
                (of_it,) = [event for event in started if event.value["job_id"] == each.job_id]
                return Running(each, of_it, ids[each.job_id])
    raise AssertionError("no task runs")


def sampled(node: str, gpu: str, hpc_job: str, at_ms: int = 15_000, **options: Any) -> dict[str, Any]:
    """The sample of a GPU whose exporter names a job, of the 15 s until `at_ms` (a multiple of them) at most."""
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",UUID="GPU-7",hostname="{node}",hpc_job="{hpc_job}"}} 50\n'
    collector = DcgmCollector(Options(targets=["http://n/"], **options), lambda _: text.encode())
    (event,) = [event for batch in collector.poll(None, at_ms) for event in batch.events]
    return dict(event.value)


@pytest.fixture
def world(tmp_path: Path) -> SlurmWorld:
    return SlurmWorld(tmp_path, every=1)


def test_by_default_the_task_of_an_array_has_squeues_id_on_both_sides(world: SlurmWorld) -> None:
    task = running_task(world)
    assert "_" in task.allocation.job_id
    node, gpu, at_ms = task.allocation.node, task.allocation.gpus[0], task.allocation.from_ms + 30_000
    sample = sampled(node, gpu, task.raw_id, at_ms, allocations_file=world.allocations)
    assert (sample["job_id"], sample["attempt"]) == (
        task.started.value["job_id"],
        task.started.value["attempt"],
    )


def test_by_the_label_it_has_slurms_own_number_on_both_sides(world: SlurmWorld) -> None:
    task = running_task(world, raw_job_ids=True)
    sample = sampled(task.allocation.node, task.allocation.gpus[0], task.raw_id)
    assert sample["job_id"] == task.raw_id == task.started.value["job_id"]


def test_a_gpu_that_slurm_gave_nobody_is_not_named_by_a_label_that_was_left_behind(world: SlurmWorld) -> None:
    task = running_task(world)
    assert "job_id" not in sampled(task.allocation.node, "7", task.raw_id, allocations_file=world.allocations)
    named = sampled(
        task.allocation.node, "7", task.raw_id, allocations_file=world.allocations, job_id_label="hpc_job"
    )
    assert named["job_id"] == task.raw_id
