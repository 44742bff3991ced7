"""A collector of the contract suite's worlds in processes that are killed: `python -m tests.collect.killed_process`.

Each life is a fork, which plays the world's states on a real broker and kills itself at its n-th step: before an event is
sent, after all of a batch are acknowledged, or after the position is stored. The next one goes on from the position.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from streams.clock import ManualClock
from streams.collect.collector import Position
from streams.collect.metrics import CollectorMetrics
from streams.collect.position_file import PositionFile
from streams.collect.publisher import KafkaPublisher
from streams.collect.runner import CollectorRunner
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.transport.producer import LogProducer
from tests.collect.kafka.world import BrokerRelayWorld
from tests.collect.test_contract import WORLDS
from tests.collect.world import World

KILLS: Final = 10
_PATIENCE_S: Final = 180.0

#: What lies in a chain's directory: its position, the states that are done, how often it was killed.
_POSITION, _DONE, _KILLED = "position", "done", "killed"


def world_of(name: str, directory: Path, kafka: KafkaSettings) -> World:
    """The world of a collector, with sources on the broker where it reads one."""
    return BrokerRelayWorld(kafka) if name == "kafka" else WORLDS[name](directory)


def killed(directory: Path) -> int:
    """How often the chain in a directory was killed so far."""
    return _number(directory / _KILLED)


def _number(path: Path) -> int:
    return int(path.read_text()) if path.exists() else 0


def _store_number(path: Path, number: int) -> None:
    """In one step: another process reads it, and this one may be killed anywhere."""
    new = path.with_suffix(".new")
    new.write_text(str(number))
    new.replace(path)


class _Steps:
    """Ends the process at the n-th step of its life."""

    def __init__(self, until: int | None) -> None:
        self._until = until

    def step(self) -> None:
        if self._until is not None:
            self._until -= 1
            if self._until == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class _MortalProducer(LogProducer):
    def __init__(self, kafka: KafkaSettings, steps: _Steps) -> None:
        self._steps = steps
        super().__init__(kafka)

    def send(self, *words: Any, **named: Any) -> None:
        self._steps.step()
        super().send(*words, **named)

    def flush(self) -> None:
        super().flush()
        self._steps.step()


class _MortalPositions(PositionFile):
    def __init__(self, path: Path, collector: str, steps: _Steps) -> None:
        super().__init__(path, collector)
        self._steps = steps

    def store(self, position: Position) -> None:
        super().store(position)
        self._steps.step()


def _live(name: str, directory: Path, kafka: KafkaSettings, until: int | None) -> None:
    """Go on where the life before ended, through all states."""
    # What the system was before is made anew: only the chain's own files are of the life before.
    place = directory / "world"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    world, steps, done = world_of(name, place, kafka), _Steps(until), directory / _DONE
    for state in range(_number(done)):
        world.turn(state)
    collector, clock = world.collector(), ManualClock()
    counts = CollectorMetrics(collector.name, CollectorRegistry())
    publisher = KafkaPublisher(lambda: _MortalProducer(kafka, steps))
    with _MortalPositions(directory / _POSITION, collector.name, steps) as positions:
        runner = CollectorRunner(collector, publisher, positions, clock, counts, jitter_ratio=lambda: 0.5)
        for state in range(_number(done), world.states):
            now_ms = world.turn(state)
            clock.advance(max(now_ms - clock.now_ms(), 0))
            if state % 3 == 1:
                world.go_away()
                with contextlib.suppress(TrainfareError):
                    runner.run_once()
                world.come_back()
            _until_done(runner)
            _store_number(done, state + 1)
    world.close()


def _until_done(runner: CollectorRunner) -> None:
    """Poll until the source and the broker are there."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            runner.run_once()
        except TrainfareError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)
        else:
            return


def _forked(life: Callable[[], None]) -> int:
    """Run a life in a fork; return its wait status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            life()
            code = 0
        except BaseException:  # noqa: BLE001 - of the fork
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def chain(name: str, directory: Path, kafka: KafkaSettings, *, steps_at_most: int, seed: int) -> None:
    """Live and die ten times, then to the end. Who reaches the end before begins again, without a position."""
    rng = random.Random(seed)
    while killed(directory) < KILLS:
        until = rng.randint(1, steps_at_most)
        status = _forked(partial(_live, name, directory, kafka, until))
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            _store_number(directory / _KILLED, killed(directory) + 1)
        elif status == 0:
            for each in (_POSITION, _DONE):
                (directory / each).unlink(missing_ok=True)
        else:
            sys.exit(f"a life ended with status {status}")
    if _forked(partial(_live, name, directory, kafka, None)):
        sys.exit("the last life did not reach the end")


def settings(servers: str, prefix: str) -> KafkaSettings:
    """The settings of a broker and the topics of one test."""
    named: Mapping[str, Any] = {"bootstrap_servers": servers, "topic_prefix": prefix, "partitions": 2}
    return KafkaSettings(**named)


def main() -> None:
    """Run one chain."""
    parser = argparse.ArgumentParser()
    for name in ("world", "directory", "servers", "prefix"):
        parser.add_argument(name)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    chain(
        given.world,
        Path(given.directory),
        settings(given.servers, given.prefix),
        steps_at_most=given.steps,
        seed=given.seed,
    )


if __name__ == "__main__":
    main()
