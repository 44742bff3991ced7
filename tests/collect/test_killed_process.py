"""Every collector as real processes on a real broker: killed at ten places each, two side by side, the broker killed too."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streams.collect.collector import CollectedEvent
from streams.topics import SHARD_TOPICS, full_name
from tests.cli.command import trainfare
from tests.collect import killed_process
from tests.collect.kafka.test_real_kafka import values
from tests.collect.kafka.world import BrokerRelayWorld
from tests.collect.test_contract import WORLDS, assert_same_tables, undisturbed
from tests.collect.world import Log
from tests.forked import ROOT, without_settings
from tests.kafka.broker import KafkaBroker, why_not

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1800)]

_ENDED_S = 1200.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    found = KafkaBroker(tmp_path_factory.mktemp("broker"))
    found.start()
    yield found
    found.kill()


@pytest.mark.parametrize("name", WORLDS)
def test_killed_at_ten_places_and_side_by_side_it_comes_to_the_same(
    name: str, broker: KafkaBroker, tmp_path: Path
) -> None:
    prefix = f"t{uuid.uuid4().hex[:8]}."
    kafka = killed_process.settings(broker.bootstrap_servers, prefix)
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": prefix,
        "TRAINFARE_KAFKA_PARTITIONS": "2",
    }
    assert trainfare("topics", "create", env=env).code == 0
    (tmp_path / "alone").mkdir()
    world = WORLDS[name](tmp_path / "alone")
    alone = undisturbed(world)
    if name == "kafka":
        BrokerRelayWorld(kafka).fill()

    directories = [tmp_path / "first", tmp_path / "second"]
    steps = max(3, len(alone.events) // 5)
    processes = []
    for seed, directory in enumerate(directories):
        directory.mkdir()
        words = [name, directory, broker.bootstrap_servers, prefix, "--steps", steps, "--seed", seed]
        command = [sys.executable, "-m", "tests.collect.killed_process", *map(str, words)]
        with (directory / "said.txt").open("w") as said:
            processes.append(
                subprocess.Popen(command, cwd=ROOT, env=without_settings(), stdout=said, stderr=said)
            )
    try:
        _wait(lambda: killed_process.killed(directories[0]) >= 3 or processes[0].poll() is not None)
        broker.kill()
        time.sleep(2)  # what publishes notices
        broker.start()
        _wait(lambda: all(process.poll() is not None for process in processes))
    finally:
        for process in processes:
            process.kill()
    for process, directory in zip(processes, directories, strict=True):
        assert process.wait() == 0, (directory / "said.txt").read_text()[-3000:]
        assert killed_process.killed(directory) == killed_process.KILLS

    log = Log()
    for topic in SHARD_TOPICS:
        for value in values(broker.bootstrap_servers, full_name(topic, prefix)):
            assert isinstance(value, dict)
            log.events.append(CollectedEvent(topic, value))
    assert log.distinct == alone.distinct
    assert len(log.events) > len(alone.events)
    assert_same_tables(world, log, alone)
    world.close()


def _wait(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _ENDED_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
