"""The events of a soak: nodes sampled every second, jobs that begin and end on them, and the account of what was sent.

Seconds are handed in, events are handed out, and the same seed gives the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from streams.keys import key_of
from streams.topics import Topic

GPUS: Final = 8
NODES_PER_JOB: Final = 8
LIFE_S: Final = (120, 480)
_PAUSE_S: Final = 2
_RATIOS: Final = 64
_PRICE_EVERY_S: Final = 300
_BAD_EVERY_S: Final = 10
AMOUNT_EVERY_S: Final = 10
_CHECKPOINT_EVERY_S: Final = 60
_HELD_S: Final = 5
_ONE_IN: Final = 20
_SKUS: Final[tuple[dict[str, Any], ...]] = (
    {"sku": "h100", "component": "gpu", "usd": "2.5", "per": "gpu_hour", "gpu_type": "H100"},
    {"sku": "a100", "component": "gpu", "usd": "1.234567891", "per": "gpu_hour", "gpu_type": "A100"},
    {"sku": "tools", "component": "license", "usd": "0.333333333", "per": "gpu_hour", "team": "red"},
    {"sku": "egress", "component": "network", "usd": "0.09", "per": "gb", "path": "internet"},
    {"sku": "put", "component": "storage", "usd": "0.005", "per": "thousand_requests", "op": "write"},
)
_BAD: Final = (b'{"time_ms": ', b"[]", b'{"source": "soak", "id": "bad", "time_ms": "soon", "job_id": "bad"}')

Json = dict[str, Any]


class Event(NamedTuple):
    """One record, ready to be sent."""

    topic: Topic
    key: bytes
    value: bytes


@dataclass
class Account:
    """What was sent; `told` holds every event but the samples, which change no cost, and the bad ones."""

    gpu_samples: int = 0
    permille: int = 0  # of all samples: GPU-milliseconds of work
    bad: int = 0
    jobs: set[str] = field(default_factory=set)
    told: list[tuple[str, Json]] = field(default_factory=list)


@dataclass
class _Run:
    """One job on its nodes."""

    job_id: str
    group: int
    begin_s: int
    end_s: int
    preempt_s: int | None
    heads: list[bytes]
    held: Json  # what it said of itself when it started
    attempt: int = 1


class Load:
    """`second` must be called for every whole second after `begin_s`, in turn."""

    def __init__(
        self,
        samples_per_s: int,
        begin_s: int,
        seed: int = 1,
        *,
        nodes_per_job: int = NODES_PER_JOB,
        life_s: tuple[int, int] = LIFE_S,
        amount_every_s: int = AMOUNT_EVERY_S,
        burst_every_s: int = 0,
        jobs: int = 0,
    ) -> None:
        """With `burst_every_s` some exporters keep their samples for seconds and send them at once, so often.

        With `jobs` so many run on all nodes, some on a node more than others, whatever `nodes_per_job` says.
        """
        self._burst_every_s = burst_every_s
        self._held: list[Event] = []
        self._life_s, self._amount_every_s = life_s, amount_every_s
        self.nodes = max(samples_per_s // GPUS, jobs or nodes_per_job)
        self.groups = jobs or max(self.nodes // nodes_per_job, 1)
        self._used_nodes = self.nodes if jobs else self.groups * nodes_per_job
        self.account = Account()
        self._begin_s = begin_s
        self._rng = random.Random(seed)
        self._number = 0
        self._runs: dict[int, _Run] = {}
        self._next_s: dict[int, int] = {}
        self._tails: list[tuple[bytes, int]] = [self._tail() for _ in range(_RATIOS)]

    @property
    def live(self) -> int:
        """Jobs that run."""
        return len(self._runs)

    def opening(self) -> Iterator[Event]:
        """Prices, nodes and the first jobs."""
        for price in _SKUS:
            yield self._told(Topic.PRICES, self._begin_s, effective_ms=0, **price)
        for node in range(self._used_nodes):
            about = {"gpu_count": GPUS, "gpu_type": "H100", "purchase": "on_demand"}
            yield self._told(Topic.NODES, self._begin_s, node=_node(node), type="provisioned", **about)
        for group in range(self.groups):
            yield from self._start(group, self._begin_s, first=True)

    def second(self, now_s: int) -> Iterator[Event]:
        """Everything that happened in the second that ends at `now_s`."""
        for run in self._runs.values():
            if self._holds(run.group, now_s):
                self._held += self._samples(run, now_s)
            else:
                yield from self._samples(run, now_s)
        if self._held and not self._holding(now_s):
            yield from self._released()
        yield from self._others(now_s)
        for group, run in list(self._runs.items()):
            yield from self._go_on(run, now_s)
            if now_s >= run.end_s:
                yield from self._end(run, now_s)
                self._next_s[group] = now_s + _PAUSE_S
        for group, due_s in list(self._next_s.items()):
            if now_s >= due_s:
                del self._next_s[group]
                yield from self._start(group, now_s)

    def closing(self, now_s: int) -> Iterator[Event]:
        """Everything ends, so that no row depends on the clock any more."""
        yield from self._released()
        for run in list(self._runs.values()):
            yield from self._end(run, now_s)
        for node in range(self._used_nodes):
            yield self._told(Topic.NODES, now_s, node=_node(node), type="terminated")

    # -- jobs ----------------------------------------------------------------------------------------------

    def _start(self, group: int, now_s: int, *, first: bool = False) -> Iterator[Event]:
        rng = self._rng
        job_id = f"soak-{len(self.account.jobs):06}"
        life_s = rng.randrange(20 if first else self._life_s[0], self._life_s[1])
        preempt_s = now_s + life_s // 2 if rng.random() < 0.1 else None
        nodes = [_node(number) for number in self._nodes_of(group)]
        heads = [_head(job_id, node) for node in nodes]
        held: Json = {
            "job_id": job_id,
            "gpu_count": GPUS * len(nodes),
            "nodes": dict.fromkeys(nodes, GPUS),
            "gpu_type": rng.choice(("H100", "A100")),
            "owner": rng.choice(("ann", "bob", "cy")),
            "team": rng.choice(("red", "blue")),
        }
        self._runs[group] = _Run(job_id, group, now_s, now_s + life_s, preempt_s, heads, held)
        self.account.jobs.add(job_id)
        yield self._told(Topic.JOBS, now_s, type="started", **held)

    def _nodes_of(self, group: int) -> range:
        """Of those that are used each group has its share; the first groups have what is left over."""
        each, more = divmod(self._used_nodes, self.groups)
        first = group * each + min(group, more)
        return range(first, first + each + (group < more))

    def _go_on(self, run: _Run, now_s: int) -> Iterator[Event]:
        age_s = now_s - run.begin_s
        about: Json = {"job_id": run.job_id, "attempt": run.attempt}
        if age_s and (age_s + run.group) % _CHECKPOINT_EVERY_S == 0:
            yield self._told(Topic.JOBS, now_s, type="checkpointed", **about)
        if (now_s + run.group) % self._amount_every_s == 0:
            amount = {"interval_ms": self._amount_every_s * 1000, "bytes": self._rng.randrange(10**10)}
            if run.group % 2:
                yield self._told(Topic.NETWORK, now_s, path="internet", direction="egress", **about, **amount)
            else:
                requests = self._rng.randrange(10**4)
                yield self._told(Topic.STORAGE, now_s, op="write", requests=requests, **about, **amount)
        if run.preempt_s is not None and now_s >= run.preempt_s:
            run.preempt_s = None
            run.attempt = 2
            yield self._told(Topic.JOBS, now_s, type="preempted", reason="spot_reclaim", **about)
            yield self._told(Topic.JOBS, now_s, type="started", attempt=2, **run.held)
            run.heads = [head.replace(b'"attempt":1', b'"attempt":2') for head in run.heads]

    def _end(self, run: _Run, now_s: int) -> Iterator[Event]:
        kind = self._rng.choice(("completed", "completed", "failed", "cancelled"))
        del self._runs[run.group]
        yield self._told(Topic.JOBS, now_s, job_id=run.job_id, attempt=run.attempt, type=kind)

    def _samples(self, run: _Run, now_s: int) -> Iterator[Event]:
        key, account = run.job_id.encode(), self.account
        time_ms = b"%d" % (now_s * 1000)
        for number, head in enumerate(run.heads):
            tail, permille = self._tails[(now_s * 7 + run.group + number) % _RATIOS]
            account.gpu_samples += GPUS
            account.permille += permille
            yield Event(Topic.GPU, key, head + time_ms + tail)

    # -- the rest ------------------------------------------------------------------------------------------

    def _holding(self, now_s: int) -> bool:
        return self._burst_every_s > 0 and now_s % self._burst_every_s < _HELD_S

    def _holds(self, group: int, now_s: int) -> bool:
        """One group in so many, others in each burst."""
        turn = now_s // (self._burst_every_s or 1)
        return self._holding(now_s) and (group + turn) % _ONE_IN == 0

    def _released(self) -> Iterator[Event]:
        held, self._held = self._held, []
        yield from held

    def _others(self, now_s: int) -> Iterator[Event]:
        age_s = now_s - self._begin_s
        if age_s and age_s % _PRICE_EVERY_S == 0:
            price = dict(_SKUS[age_s // _PRICE_EVERY_S % 2])
            price["usd"] = f"{self._rng.randrange(10**9, 3 * 10**9) / 10**9:.9f}"
            # Effective a little before it comes: minutes that are stored are restated.
            yield self._told(Topic.PRICES, now_s, effective_ms=now_s * 1000 - 12_345, **price)
        if age_s % _BAD_EVERY_S == 0:
            self.account.bad += 1
            topic = (Topic.JOBS, Topic.GPU, Topic.NETWORK)[age_s // _BAD_EVERY_S % 3]
            yield Event(topic, b"bad", _BAD[age_s // _BAD_EVERY_S % len(_BAD)])

    def _told(self, topic: Topic, at_s: int, **fields: Any) -> Event:
        self._number += 1
        body = {"source": "soak", "id": f"e{self._number}", "time_ms": at_s * 1000, **fields}
        self.account.told.append((str(topic), body))
        value = orjson.dumps(body)
        return Event(topic, key_of(topic, value), value)

    def _tail(self) -> tuple[bytes, int]:
        permille = [self._rng.randrange(1001) for _ in range(GPUS)]
        return b',"util_ratio":%b}' % orjson.dumps([each / 1000 for each in permille]), sum(permille)


def _node(number: int) -> str:
    return f"node-{number:05}"


def _head(job_id: str, node: str) -> bytes:
    """The part of a sample before its instant."""
    gpus = [f"g{number}" for number in range(GPUS)]
    about = {
        "source": "soak",
        "job_id": job_id,
        "node": node,
        "attempt": 1,
        "interval_ms": 1000,
        "gpus": gpus,
    }
    return orjson.dumps(about)[:-1] + b',"time_ms":'
