"""How long a shard stands still when its worker dies, is stopped or is restarted, with the default settings.

`python -m tests.chaos.failover` measures on a real Kafka and prints a table.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import orjson
from confluent_kafka import KafkaException

from streams.config.settings import KafkaSettings
from streams.transport.admin import connect, create_topics
from tests.chaos.fleet import Event
from tests.chaos.log import Feed, Offsets
from tests.chaos.run import worker_env
from tests.chaos.workers import Worker, Workers
from tests.kafka.broker import shared_broker
from tests.store_process import StoreProcess

PARTITIONS: Final = 8
_JOBS: Final = 64
_PER_S: Final = 400.0
_PATIENCE_S: Final = 60.0
_BEGINS: Final = "shard begins"
_ASSIGNED: Final = "shards assigned"


@dataclass(frozen=True)
class Moved:
    """One shard after one fault, in seconds since it: taken up by another worker, and its first commit after that."""

    restored_s: float
    stored_s: float


class Progress(threading.Thread):
    """Notes when the commits of each shard went on; a commit follows rows and snapshot that are stored."""

    def __init__(self, kafka: KafkaSettings) -> None:
        super().__init__(daemon=True)
        self._kafka = kafka
        self._ending = threading.Event()
        self.advances: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}

    def run(self) -> None:
        offsets, before = Offsets(self._kafka), dict.fromkeys(range(PARTITIONS), 0)
        while not self._ending.wait(0.05):
            try:
                committed = offsets.committed()
            except KafkaException:
                continue
            now_s = time.time()
            for number in before:
                total = sum(offset for place, offset in committed.items() if place[1] == number)
                if total > before[number]:
                    before[number] = total
                    self.advances[number].append(now_s)
        offsets.close()

    def first_after(self, number: int, instant_s: float) -> float | None:
        """When the shard went on after an instant."""
        return next((each for each in self.advances[number] if each > instant_s), None)

    def longest_pause_s(self, since_s: float, numbers: Sequence[int] = range(PARTITIONS)) -> float:
        """The longest time between two commits of a shard."""
        worst = 0.0
        for number in numbers:
            times = [each for each in self.advances[number] if each >= since_s]
            worst = max([worst, *(b - a for a, b in pairwise(times))])
        return worst

    def end(self) -> None:
        self._ending.set()
        self.join(10)


@dataclass
class Scene:
    """Workers with a steady log; use it as a context manager."""

    directory: Path
    workers_wanted: int = 3
    static: bool = False
    env: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        prefix = f"f{uuid.uuid4().hex[:8]}."
        self.kafka = KafkaSettings(
            bootstrap_servers=shared_broker().bootstrap_servers,
            topic_prefix=prefix,
            group_id=f"{prefix}g",
            partitions=PARTITIONS,
        )
        create_topics(self.kafka, connect(self.kafka))
        self._front = StoreProcess(self.directory / "store").start()
        self.workers = Workers(self.directory, worker_env(self.kafka, self._front.url) | self.env)
        self.workers.__enter__()
        self.feed = Feed(self.kafka, samples(), _PER_S)
        self.feed.start()
        for number in range(self.workers_wanted):
            self.start(number)
        for worker in self.workers.alive:
            worker.wait_ready()
        self.progress = Progress(self.kafka)
        self.progress.start()
        self.wait_moving()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.feed.end()
        self.progress.end()
        self.workers.end()
        self._front.kill()

    def start(self, number: int) -> Worker:
        """A worker; its number is its name in a static group."""
        env = {"TRAINFARE_KAFKA_GROUP_INSTANCE_ID": f"worker-{number}"} if self.static else {}
        return self.workers.start(**env)

    def wait_moving(self) -> None:
        """Return once every shard goes on."""
        since_s, deadline_s = time.time(), time.time() + _PATIENCE_S
        while any(self.progress.first_after(number, since_s) is None for number in range(PARTITIONS)):
            assert time.time() < deadline_s, self.stuck(since_s)
            time.sleep(0.1)

    def stuck(self, since_s: float) -> str:
        """Which shards do not go on, and what the workers say."""
        still = [n for n in range(PARTITIONS) if self.progress.first_after(n, since_s) is None]
        return f"shards {still} do not go on\n" + "\n".join(w.text()[-1500:] for w in self.workers.alive)

    def owned(self, worker: Worker) -> set[int]:
        """Shards that the worker took up last of all."""
        last: dict[int, tuple[float, str]] = {}
        for each in self.workers.lives:
            for number, at_s in begun(each):
                last[number] = max(last.get(number, (0.0, "")), (at_s, each.name))
        return {number for number, (_, name) in last.items() if name == worker.name}

    def moved(self, shards: set[int], victim: Worker, since_s: float) -> Moved:
        """The slowest of the shards on its way to another worker."""
        deadline_s = time.time() + _PATIENCE_S
        while True:
            taken: dict[int, float] = {}
            for each in self.workers.lives:
                if each is not victim:
                    taken |= {n: at_s for n, at_s in begun(each) if n in shards and at_s > since_s}
            stored = {n: self.progress.first_after(n, at_s) for n, at_s in taken.items()}
            if taken.keys() == shards and None not in stored.values():
                slowest_s = max(at_s for at_s in stored.values() if at_s is not None)
                return Moved(max(taken.values()) - since_s, slowest_s - since_s)
            assert time.time() < deadline_s, self.stuck(since_s)
            time.sleep(0.1)


def begun(worker: Worker) -> Iterator[tuple[int, float]]:
    """Shards that a worker took up, and when."""
    for line in worker.text().splitlines():
        if _BEGINS in line:
            found = orjson.loads(line)
            yield found["shard"], datetime.fromisoformat(found["timestamp"]).timestamp()


def samples() -> Iterator[Event]:
    """Samples of now, of jobs in every shard, for ever."""
    number = 0
    while True:
        number += 1
        job = f"job-{number % _JOBS}"
        value = {
            "source": "steady", "id": str(number), "time_ms": time.time_ns() // 1_000_000, "job_id": job, "node": "n",
            "interval_ms": 1_000, "gpus": ["g0"], "util_ratio": [0.5],
        }  # fmt: skip
        yield Event("gpu", job, orjson.dumps(value))


def after(number: signal.Signals, trials: int, directory: Path) -> list[Moved]:
    """SIGKILL or SIGTERM of one worker of three, so many times."""
    found = []
    rng = random.Random(trials)
    with Scene(directory) as scene:
        for _ in range(trials):
            victim = rng.choice(scene.workers.alive)
            shards = scene.owned(victim)
            since_s = time.time()
            victim.expected_end = True
            victim.signal(number)
            victim.process.wait(30)
            found.append(scene.moved(shards, victim, since_s))
            scene.workers.start().wait_ready()
            scene.wait_moving()
            time.sleep(rng.uniform(0, 1))
    return found


def rolling_restart_s(directory: Path) -> float:
    """The longest pause of any shard while three workers are restarted, one after the other."""
    with Scene(directory) as scene:
        since_s = time.time() - 1
        for worker in scene.workers.alive:
            assert worker.terminate() == 0, worker.text()[-2000:]
            scene.workers.start().wait_ready()
            scene.wait_moving()
        return scene.progress.longest_pause_s(since_s)


@dataclass(frozen=True)
class StaticRestart:
    """A restart within the session timeout, of a member with a name."""

    rebalances_of_others: int
    pause_of_others_s: float
    pause_of_its_own_s: float


def static_restart(directory: Path) -> StaticRestart:
    """Stop one worker of a static group and start it anew at once."""
    with Scene(directory, static=True) as scene:
        time.sleep(3)
        victim, *others = scene.workers.alive
        own = scene.owned(victim)
        theirs = sorted(set(range(PARTITIONS)) - own)
        since_s, before = time.time() - 1, sum(other.count(_ASSIGNED) for other in others)
        assert victim.terminate() == 0, victim.text()[-2000:]
        again = scene.start(0)
        again.wait_ready()
        scene.wait_moving()
        assert scene.owned(again) == own
        return StaticRestart(
            sum(other.count(_ASSIGNED) for other in others) - before,
            scene.progress.longest_pause_s(since_s, theirs),
            scene.progress.longest_pause_s(since_s, sorted(own)),
        )


def table(name: str, found: Sequence[Moved]) -> str:
    """Min, median and max of the trials."""
    lines = []
    for what, values in (
        ("taken up by another", [each.restored_s for each in found]),
        ("first rows stored", [each.stored_s for each in found]),
    ):
        figures = f"{min(values):6.1f} {statistics.median(values):6.1f} {max(values):6.1f}"
        lines.append(f"{name:<10} {len(found):>3} trials  {what:<20} {figures} s (min median max)")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=7)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="trainfare-failover-"))

    def fresh(name: str) -> Path:
        (directory / name).mkdir()
        return directory / name

    def say(text: str) -> None:
        print(text, flush=True)  # noqa: T201 - a command

    say(f"logs in {directory}")
    say(table("SIGTERM", after(signal.SIGTERM, given.trials, fresh("term"))))
    say(table("SIGKILL", after(signal.SIGKILL, given.trials, fresh("kill"))))
    say(f"rolling restart of 3: longest pause of a shard {rolling_restart_s(fresh('rolling')):.1f} s")
    say(f"static membership: {static_restart(fresh('static'))}")


if __name__ == "__main__":
    main()
