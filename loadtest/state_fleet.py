"""A fleet in shards, without Kafka and ClickHouse: jobs on nodes of eight GPUs that are sampled each second."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from loadtest.state_history import IntervalSamples
from loadtest.state_measure import Restored, Taken, rss_mib
from schemas.decode import decode
from schemas.events import ControlEvent, Event, PriceEvent
from schemas.invalid import Invalid
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS, Ticks
from streams.engine.shard.shard import Shard

T0_MS = 1_772_366_400_000
GPUS = 8
#: One job in so many has no lifecycle events: it is metered by its samples.
METERED = 10
#: One job in so many reports an amount each second.
MOVING = 50


class Fleet:
    """Shards and what feeds them."""

    def __init__(self, gpus: int, jobs: int, shards: int, minutes: int, metered: int = METERED) -> None:
        """`metered`: one job in so many has no lifecycle events, 0: none."""
        self.nodes = max(gpus // GPUS, 1)
        self._jobs = min(jobs, self.nodes)
        self._minutes = minutes
        self._metered = metered
        self._random = random.Random(1)
        self.now_ms = T0_MS
        self._offsets: dict[tuple[str, int], int] = {}
        self._version = 0
        self._book = PriceBook.empty().with_events([_price()])
        self._controls: dict[bytes, ControlEvent] = {}
        self._reference = ReferenceLog(self._book, {})
        self.shards = [Shard(number, ShardSettings(), self._book) for number in range(shards)]
        self._views = [self._reference.view() for _ in self.shards]
        self._fed: dict[int, list[IntervalSamples]] = {}  # by the length of their intervals
        # In files, as it is not the worker that keeps them.
        self._folder = tempfile.TemporaryDirectory(prefix="state")
        self.chains: list[list[tuple[int, Path]]] = [[] for _ in self.shards]

    def begin(self) -> None:
        """Jobs and nodes begin."""
        for shard in self.shards:
            self._feed(shard, "jobs", [self._job(job, "started") for job in self._of(shard)])
            self._feed(shard, "nodes", [_node(node, self.now_ms) for node in self._nodes_of(shard)])

    def fill(self, say: Callable[[str], None]) -> None:
        """Jobs begin; then minutes of samples, a message for each node and minute."""
        self.begin()
        for minute in range(self._minutes):
            self.now_ms += 60_000
            for shard in self.shards:
                self._samples(shard, 60_000)
            self.judge()
            self.checkpoint(open_attempts=True)
            say(f"minute {minute + 1} of {self._minutes}")

    def second(self) -> None:
        """One second of everything: samples of all nodes, heartbeats of a thirtieth of the jobs, some amounts."""
        self.now_ms += 1000
        for shard in self.shards:
            self._samples(shard, 1000)
            turn = self.now_ms // 1000 % 30
            beats = [self._job(job, "heartbeat") for job in self._of(shard) if job % 30 == turn]
            self._feed(shard, "jobs", beats)
            moving = [self._amount(job) for job in self._of(shard) if job % MOVING == 0]
            self._feed(shard, "network", moving)
        if self.now_ms % TICK_MS == 0:
            self.judge()

    def sample(self, interval_ms: int) -> None:
        """Samples of all GPUs over an interval that ends now."""
        if interval_ms not in self._fed:
            self._fed[interval_ms] = [
                IntervalSamples(self._owners(shard), _GPU_IDS, interval_ms) for shard in self.shards
            ]
        for shard, samples in zip(self.shards, self._fed[interval_ms], strict=True):
            samples.feed(shard, self.now_ms)

    def sample_seconds(self, count: int) -> None:
        """Seconds of samples only."""
        for _ in range(count):
            self.now_ms += 1000
            for shard in self.shards:
                self._samples(shard, 1000)

    def hour(self) -> None:
        """An hour of everything, a message for each node and minute."""
        for minute in range(60):
            self.now_ms += 60_000
            for shard in self.shards:
                self._samples(shard, 60_000)
                self._feed(shard, "jobs", [self._job(job, "heartbeat") for job in self._of(shard)])
                moving = [self._amount(job) for job in self._of(shard) if job % MOVING == 0]
                self._feed(shard, "network", moving)
            if minute % 10 == 9:
                self.judge()
                list(self.checkpoint(open_attempts=True))

    def history(self, hours: int, say: Callable[[str], None]) -> None:
        """Hours of samples and of nothing else, a message for each node and minute."""
        fed = [IntervalSamples(self._owners(shard), _GPU_IDS) for shard in self.shards]
        for minute in range(1, hours * 60 + 1):
            self.now_ms += 60_000
            for shard, samples in zip(self.shards, fed, strict=True):
                samples.feed(shard, self.now_ms)
            if minute % 10 == 0:
                self.judge()
                self.drop_rows()
                list(self.checkpoint(open_attempts=minute % 60 == 0))
            if minute % 120 == 0:
                held = self.kept()
                rows, packed = held["rows"], held["bytes of packed rows"]
                say(
                    f"hour {minute // 60}: {rows} rows, {packed / 2**20:.0f} MiB packed, RSS {rss_mib():.0f} MiB"
                )

    def _owners(self, shard: Shard) -> list[tuple[str, str]]:
        nodes = range(self.nodes)
        jobs = ((job, node) for job in self._of(shard) for node in nodes[job :: self._jobs])
        return [(_name(job), _node_name(node)) for job, node in jobs]

    def kept(self) -> dict[str, int]:
        """What all shards hold: what must not grow."""
        jobs = [job for shard in self.shards for job in shard.jobs.values()]
        attempts = [attempt for job in jobs for attempt in job.attempts.values()]
        return {
            "jobs": len(jobs),
            "events": sum(len(attempt.events) for attempt in attempts),
            "ids": sum(len(job.seen) for job in jobs),
            "metered minutes": sum(len(attempt.winners) for attempt in attempts),
            "amounts": sum(len(attempt.traffic) for attempt in attempts),
            "minutes of amounts": sum(len(attempt.booked_traffic) for attempt in attempts),
            "rows": sum(shard.coverage.row_count for shard in self.shards),
            "bytes of packed rows": sum(shard.coverage.packed_bytes for shard in self.shards),
            "seen": sum(len(ids) for shard in self.shards for ids in shard.seen.values()),
            "archived": sum(len(shard.archived) for shard in self.shards),
        }

    def judge(self) -> list[float]:
        """The ticks up to now; CPU seconds of each shard, between which the event loop has its turn."""
        last_ms = self.now_ms // TICK_MS * TICK_MS
        took_s = []
        for shard, view in zip(self.shards, self._views, strict=True):
            began_s = time.process_time()
            shard.judge(Ticks(shard.position.tick_ms or last_ms, last_ms), view)
            took_s.append(time.process_time() - began_s)
        return took_s

    def prepare(self) -> None:
        """What a worker does shortly before a tick."""
        for shard, view in zip(self.shards, self._views, strict=True):
            shard.write_interim_rates(self.now_ms, view)

    def reprice(self) -> None:
        """Another price for all GPUs, known from the next tick on; rows of the ledger are not derived here."""
        self._book = self._book.with_events([_price("3", self.now_ms)])
        self._learn()

    def silence(self) -> None:
        """A control that concerns nobody."""
        value: dict[str, object] = {"match": {"team": "nobody"}}
        self._controls = {b"silence/s": ControlEvent("load", "s", self.now_ms, "silence", "s", value)}
        self._learn()

    def _learn(self) -> None:
        self._reference = ReferenceLog(self._book, self._controls)
        self._views = [self._reference.view() for _ in self.shards]

    def drop_rows(self) -> None:
        """Burn rates and alerts that wait are given out, to nobody."""
        for shard in self.shards:
            shard.tracker.tables(shard.number, 1)
            shard.tracker.alerts.drain_changes()

    def checkpoint(self, *, open_attempts: bool) -> Iterator[Taken]:
        """A checkpoint of each shard, until nothing is left over."""
        taken = []
        for shard, chain in zip(self.shards, self.chains, strict=True):
            more = True
            while more:
                self._version += 1
                started_s, cpu_s = time.perf_counter(), time.thread_time()
                point = shard.checkpoint(self.now_ms, self._version, open_attempts=open_attempts)
                took_s, cpu_s = time.perf_counter() - started_s, time.thread_time() - cpu_s
                more = point.more
                file = Path(self._folder.name, f"{shard.number}.{point.version}")
                file.write_bytes(point.snapshot)
                chain.append((point.version, file))
                while chain[0][0] < point.root:
                    chain.pop(0)[1].unlink()
                taken.append(Taken(took_s, cpu_s, len(point.snapshot), point.rows))
        return iter(taken)

    def restore(self) -> Iterator[Restored]:
        """Each shard again, from its chain."""
        for shard, chain in zip(self.shards, self.chains, strict=True):
            blobs = [file.read_bytes() for _, file in chain]
            started_s, cpu_s = time.perf_counter(), time.thread_time()
            again = Shard.restore(shard.number, shard.settings, self._book, blobs)
            took_s, cpu_s = time.perf_counter() - started_s, time.thread_time() - cpu_s
            if again.position.next != shard.position.next:
                raise RuntimeError(f"shard {shard.number} was restored to another offset than it stood at")
            yield Restored(took_s, cpu_s, len(blobs), sum(map(len, blobs)))

    # -- events --------------------------------------------------------------------------------------------

    def _of(self, shard: Shard) -> range:
        return range(shard.number, self._jobs, len(self.shards))

    def _nodes_of(self, shard: Shard) -> range:
        return range(shard.number, self.nodes, len(self.shards))

    def _samples(self, shard: Shard, interval_ms: int) -> None:
        values = []
        for job in self._of(shard):
            for node in range(job, self.nodes, self._jobs):
                util = [round(self._random.random(), 3) for _ in _GPU_IDS]
                event = {
                    "source": "load", "time_ms": self.now_ms, "interval_ms": interval_ms, "job_id": _name(job),
                    "node": _node_name(node), "gpus": _GPU_IDS, "util_ratio": util,
                    "gpu_type": "H100",
                }  # fmt: skip
                values.append(event)
        self._feed(shard, "gpu", values)

    def _job(self, job: int, kind: str) -> dict[str, object]:
        event = {
            "source": "load", "id": f"{kind}{self.now_ms}", "time_ms": self.now_ms, "job_id": _name(job),
            "type": "heartbeat" if self._metered and job % self._metered == 0 else kind,
        }  # fmt: skip
        if kind == "started":
            event |= {"gpu_count": GPUS * len(range(job, self.nodes, self._jobs)), "owner": "me", "team": "t"}
            event |= {"nodes": {_node_name(n): GPUS for n in range(job, self.nodes, self._jobs)}}
            event |= {"gpu_type": "H100"}
        return event

    def _amount(self, job: int) -> dict[str, object]:
        return {
            "source": "load", "id": f"n{self.now_ms}.{job}", "time_ms": self.now_ms, "interval_ms": 1000,
            "job_id": _name(job), "bytes": 10**8 + job, "path": "internet", "direction": "egress",
        }  # fmt: skip

    def _feed(self, shard: Shard, topic: str, values: list[dict[str, object]]) -> None:
        where = (topic, shard.number)
        first = self._offsets.get(where, 0)
        self._offsets[where] = first + len(values)
        for begin in range(0, len(values), 2000):
            part = values[begin : begin + 2000]
            records = [
                LogRecord(first + begin + i, self.now_ms, json.dumps(value).encode())
                for i, value in enumerate(part)
            ]
            batch = LogBatch(topic, shard.number, first + begin, first + begin + len(part), records)
            if shard.fold(batch) is not None:
                raise AssertionError("a hole")


_GPU_IDS = [f"GPU-{gpu}" for gpu in range(GPUS)]


def _name(job: int) -> str:
    return f"train-{job:06}"


def _node_name(node: int) -> str:
    return f"node-{node:06}"


def _node(node: int, time_ms: int) -> dict[str, object]:
    return {
        "source": "load", "id": "p", "time_ms": time_ms, "node": _node_name(node), "type": "provisioned",
        "gpu_count": GPUS, "gpu_type": "H100",
    }  # fmt: skip


def _price(usd: str = "2.5", effective_ms: int = 0) -> PriceEvent:
    value = {
        "source": "load", "id": "p", "time_ms": T0_MS, "sku": "h100", "component": "gpu", "usd": usd,
        "per": "gpu_hour", "effective_ms": effective_ms, "gpu_type": "H100",
    }  # fmt: skip
    event: Event | Invalid = decode("prices", json.dumps(value).encode(), (), T0_MS)
    assert isinstance(event, PriceEvent)
    return event
