"""What every collector promises: however it is stopped, restarted or run twice, the meter comes to the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from streams.accounts.account import EntryClass
from streams.clock import ManualClock
from streams.collect.metrics import CollectorMetrics
from streams.collect.position_file import PositionFile
from streams.collect.publisher import Publisher
from streams.collect.runner import CollectorRunner
from streams.errors import TrainfareError
from tests.collect.amd_world import AmdWorld
from tests.collect.ci.world import CiWorld
from tests.collect.dcgm_world import DcgmWorld
from tests.collect.flow_logs.world import aws_world, azure_world, gcp_world
from tests.collect.json_files.world import edge_world
from tests.collect.kafka.world import RelayWorld
from tests.collect.kubernetes.world import KubernetesWorld
from tests.collect.mlflow.world import MlflowWorld
from tests.collect.nvidia_smi.world import NvidiaSmiWorld
from tests.collect.ray.world import RayWorld
from tests.collect.s3_access_logs.world import s3_world
from tests.collect.slurm.world import SlurmWorld
from tests.collect.training_jobs.world import CommandWorld, sagemaker_world, vertex_world
from tests.collect.training_jobs.world import azure_world as azure_ml_world
from tests.collect.wandb.world import WandbWorld
from tests.collect.world import Log, World

#: A new collector joins this suite before it has tests of its own.
WORLDS: dict[str, Callable[[Path], World]] = {
    "amd": AmdWorld,
    "aws-flow-logs": aws_world,
    "azure-flow-logs": azure_world,
    "azure-ml": azure_ml_world,
    "dcgm": DcgmWorld,
    "gcp-flow-logs": gcp_world,
    "github": CiWorld,
    "gitlab": partial(CiWorld, system="gitlab"),
    "json-files": edge_world,
    "kafka": RelayWorld,
    "mlflow": MlflowWorld,
    "ray": RayWorld,
    "s3-access-logs": s3_world,
    "kubernetes": KubernetesWorld,
    "sagemaker, files": sagemaker_world,
    "sagemaker, a command": CommandWorld,
    "nvidia-smi": NvidiaSmiWorld,
    "slurm 22.05": SlurmWorld,
    "slurm 24.11": partial(SlurmWorld, version="24.11", every=7),
    "wandb": WandbWorld,
    "vertex-ai": vertex_world,
}


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    found = WORLDS[request.param](tmp_path)
    yield found
    found.close()


class Process:
    """A collector with its position, from its start to its end."""

    def __init__(self, world: World, log: Publisher, positions: PositionFile | None) -> None:
        self.world = world
        self.clock = ManualClock()
        collector = world.collector()
        counts = CollectorMetrics(collector.name, CollectorRegistry())
        self.runner = CollectorRunner(collector, log, positions, self.clock, counts, jitter_ratio=lambda: 0.5)

    def step(self, state: int, skew_ms: int = 0) -> int:
        now_ms = self.world.turn(state) + skew_ms
        self.clock.advance(max(now_ms - self.clock.now_ms(), 0))
        return self.runner.step()


def undisturbed(world: World) -> Log:
    log = Log()
    process = Process(world, log, None)
    for state in range(world.states):
        process.step(state)
    return log


def test_every_event_is_one_that_the_meter_takes(world: World) -> None:
    log = undisturbed(world)
    assert log.events
    assert not log.refused()


def test_all_that_is_shown_is_metered_free_or_not_understood(world: World) -> None:
    """By a count of the source's own answers, which no collector has a part in."""
    read = 0
    for state in range(world.states):
        process = Process(world, Log(), None)
        process.step(state)
        account = process.runner.account
        by_class = [sum(account.of_class(each).values()) for each in EntryClass]
        assert sum(by_class) == account.read == world.entries(state), (state, account.reasons)
        assert sum(line.entries for line in account.lines()) == account.read
        read += account.read
    assert read


def test_run_twice_side_by_side_it_changes_nothing(world: World) -> None:
    alone, both = undisturbed(world), Log()
    first, second = Process(world, both, None), Process(world, both, None)
    for state in range(world.states):
        first.step(state)
        second.step(state)
    assert both.distinct == alone.distinct
    assert len(both.events) == 2 * len(alone.events)
    assert_same_tables(world, both, alone)


@pytest.mark.parametrize("place", range(10))
def test_killed_at_any_place_it_goes_on(world: World, tmp_path: Path, place: int) -> None:
    """The destination takes so many events and then fails; the process ends and another one goes on."""
    alone, log = undisturbed(world), Log()
    log.fails_after = place * len(alone.events) // 10
    path = tmp_path / "position"
    with PositionFile(path, world.collector().name) as positions:
        process = Process(world, log, positions)
        for state in range(world.states):
            process.step(state)
            if log.fails_after == 0:
                break
    log.fails_after = None
    with PositionFile(path, world.collector().name) as positions:
        process = Process(world, log, positions)
        for later in range(state, world.states):
            process.step(later)
    assert log.distinct == alone.distinct
    assert_same_tables(world, log, alone)


def test_nothing_is_lost_while_the_source_or_the_destination_is_away(world: World) -> None:
    alone, log = undisturbed(world), Log()
    process = Process(world, log, None)
    for state in range(world.states):
        if state % 3 == 1:
            world.go_away()
            assert process.step(state) == 750  # backs off
            world.come_back()
        if state % 3 == 2:
            log.fails_after = 0
            process.step(state)
            log.fails_after = None
        process.step(state)
    assert log.distinct == alone.distinct
    assert_same_tables(world, log, alone)


def test_a_source_that_is_away_is_named(world: World) -> None:
    world.go_away()
    process = Process(world, Log(), None)
    process.clock.advance(world.turn(0))
    with pytest.raises(TrainfareError, match=r"."):
        process.runner.run_once()


def test_a_clock_that_is_a_little_off_changes_nothing(world: World) -> None:
    alone, log = undisturbed(world), Log()
    process = Process(world, log, None)
    for state in range(world.states):
        process.step(state, skew_ms=137)
    assert log.distinct == alone.distinct


def assert_same_tables(world: World, log: Log, alone: Log) -> None:
    as_of_ms = world.turn(world.states - 1)
    found, wanted = log.tables(as_of_ms), alone.tables(as_of_ms)
    for name in ("ledger", "usage", "unattributed", "hours", "nodes", "node_hours", "jobs", "attempts"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert not found.dead
