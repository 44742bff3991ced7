"""The collector on what a real API server said: attempts, ends and costs, computed from the recorded pods in another way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from streams.collect.allocations import JobHolder, read_allocations
from streams.collect.collector import Position
from tests.collect.kubernetes.world import VERSIONS, KubernetesWorld, recorded
from tests.collect.slurm.test_recorded import NANO_PER_GPU_S, PRICE
from tests.collect.world import Log
from tests.harness import meter
from tests.oracle.model import Line, Tables

TRAIN, SWEEP, BERT = "research/11111111/train", "research/22222222/sweep", "research/33333333/bert"
RAY, SET = "research/44444444/ray", "research/9b2f7c1e/pretrain"
#: A ms after all that is recorded.
LATER_MS = (4_102_444_800_000, 4_102_444_800_001)
PENDING = "pending"


@pytest.fixture(params=VERSIONS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KubernetesWorld]:
    found = KubernetesWorld(tmp_path, request.param)
    yield found
    found.close()


def collect(world: KubernetesWorld, states: Iterable[int]) -> Log:
    """The events of one collector that polls in these states."""
    collector, log, position = world.collector(), Log(), None
    for state in states:
        position = poll(collector, world.turn(state), position, log)
    return log


def poll(collector: Any, now_ms: int, position: Position | None, log: Log) -> Position | None:
    for batch in collector.poll(position, now_ms):
        assert not batch.account.said
        log.publish(batch.events)
        position = batch.position
    return position


def tables_of(log: Log, world: KubernetesWorld) -> Tables:
    as_of_ms = world.turn(world.states - 1) + 3_600_000
    lines = [PRICE, *(Line(topic, dict(value)) for topic, value in log.events if topic == "jobs")]
    return meter(lines, as_of_ms=as_of_ms)


def cost_nano(tables: Tables) -> dict[str, int]:
    found: Counter[str] = Counter()
    for key, row in tables.ledger.items():
        found[key.job_id] += row.cost_nano
    return dict(found)


def of_pods(pods: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Job -> nano-dollars, from the last that was said of each pod: seconds from its binding to its container's end."""
    last = {each["metadata"]["uid"]: each for each in pods}
    found: Counter[str] = Counter()
    for pod in last.values():
        resources = pod["spec"]["containers"][0]["resources"]
        gpus = int(resources.get("limits", {}).get("nvidia.com/gpu", 0))
        if gpus and pod["spec"].get("nodeName"):
            bound = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
            ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
            seconds = _time_s(ended) - _time_s(bound[0]["lastTransitionTime"])
            found[_job(pod["metadata"]["name"])] += gpus * seconds * NANO_PER_GPU_S
    return dict(found)


def all_pods() -> Iterable[dict[str, Any]]:
    return (each.object for each in recorded("1.34").changes["pods"])


def _time_s(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def _job(pod: str) -> str:
    jobs = {"train": TRAIN, "sweep": SWEEP, "bert": BERT, "ray": RAY, "pretrain": SET}
    return jobs[pod.split("-")[0]]


def test_costs_are_the_seconds_that_pods_were_bound(world: KubernetesWorld) -> None:
    found = cost_nano(tables_of(collect(world, range(world.states)), world))
    assert found == of_pods(all_pods())
    assert set(found) == {TRAIN, SWEEP, BERT, RAY, SET}


@pytest.mark.parametrize("every", [2, 3, 5, 9])
def test_fewer_polls_cost_the_same(world: KubernetesWorld, every: int) -> None:
    states = sorted({*range(0, world.states, every), world.states - 1})
    assert cost_nano(tables_of(collect(world, states), world)) == of_pods(all_pods())


def test_each_attempt_ends_as_its_pods_did(world: KubernetesWorld) -> None:
    log = collect(world, range(world.states))
    ends = [
        (value["job_id"], value["attempt"], value["type"], value.get("reason"))
        for topic, value in log.events
        if topic == "jobs" and value["type"] in ("completed", "failed", "preempted", "cancelled")
    ]
    pending = [each for each in ends if each[0].endswith("/pending")]
    assert sorted(set(ends) - set(pending)) == [
        (TRAIN, 1, "failed", "out_of_memory"),
        (TRAIN, 2, "completed", None),
        (SWEEP, 1, "completed", None),
        (BERT, 1, "completed", None),
        (RAY, 1, "completed", None),
        (SET, 1, "failed", "unknown"),
        (SET, 2, "preempted", "spot_reclaim"),
    ]
    assert [each[1:] for each in pending] == [(1, "cancelled", "unknown")]
    assert len(ends) == len(set(ends))


def test_nodes_come_drain_and_go(world: KubernetesWorld) -> None:
    log = collect(world, range(world.states))
    found = [(value["node"], value["type"]) for topic, value in log.events if topic == "nodes"]
    assert found[:2] == [("eks-1", "provisioned"), ("eks-spot", "provisioned")]
    assert ("cpu-1", "provisioned") not in found
    first = dict(log.events[0].value)
    assert (first["instance_type"], first["zone"], first["gpu_type"]) == ("p5.48xlarge", "us-east-1a", "H100")
    assert (first["cloud"], first["region"], first["purchase"], first["gpu_count"], first["cluster"]) == (
        "aws",
        "us-east-1",
        "on_demand",
        8,
        "east",
    )


def test_nothing_of_a_pods_environment_is_in_events_or_position(world: KubernetesWorld) -> None:
    collector, log = world.collector(), Log()
    position = None
    for state in range(world.states):
        position = poll(collector, world.turn(state), position, log)
        assert "secret-of-the-pod" not in str(position)
    assert "secret-of-the-pod" not in str(log.events)
    assert "secret-of-the-pod" in str(recorded("1.34").changes["pods"])


def test_allocations_name_the_pods_that_run(world: KubernetesWorld) -> None:
    collect(world, range(12))
    held = read_allocations(world.allocations)
    assert held.of_pod("research/pretrain-0-b", *LATER_MS) == JobHolder(SET, 2)
    assert held.of_pod("research/train-b", *LATER_MS) == JobHolder(TRAIN, 2)
    assert held.of_pod("research/train-a", *LATER_MS) is None
    assert held.of_pod("research/sweep-1", *LATER_MS) is None


def test_where_history_is_gone_at_any_step_pods_that_still_exist_cost_the_same(
    world: KubernetesWorld,
) -> None:
    """A list in place of each watch: only pods that came and went between two polls may be missing, and none does so."""
    collector, log, position = world.collector(), Log(), None
    for state in range(world.states):
        now_ms = world.turn(state)
        world.server.oldest = world.server.shown + 1
        position = poll(collector, now_ms, position, log)
    found, wanted = cost_nano(tables_of(log, world)), of_pods(all_pods())
    # Of three jobs a pod is gone in the step in which it ended: it ends when all was read last, a step of 3 s before at most.
    gpus = {TRAIN: 0, SWEEP: 0, SET: 4, RAY: 4, BERT: 1}
    for job, nano in wanted.items():
        assert nano - gpus[job] * 3 * NANO_PER_GPU_S <= found[job] <= nano
    assert not tables_of(log, world).dead
