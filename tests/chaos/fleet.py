"""A fleet's events for the chaos: mostly GPU samples, with everything else in it, in the order in which they arrive.

Made from a seed; it must not know how anything is metered. What must be refused says so itself (`PLANTED`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

BEGIN_MS: Final = 1_704_067_200_000
MINUTE_MS: Final = 60_000
#: The second half of the jobs runs so much later that the first is archived, and its stragglers are too late.
DAY_AFTER_MS: Final = 26 * 60 * MINUTE_MS
START_SPREAD_S: Final = 240
PLANTED: Final = b'"planted"'

_SKUS: Final[tuple[tuple[str, str, str, str, dict[str, Any]], ...]] = (
    ("h100", "gpu", "6.88", "gpu_hour", {"gpu_type": "H100"}),
    ("p4d", "gpu", "21.9576", "instance_hour", {"gpus": 8, "gpu_type": "A100"}),
    ("spot", "gpu", "2.123456789", "gpu_hour", {"gpu_type": "H100", "purchase": "spot"}),
    ("host", "compute", "0.05", "vcpu_hour", {}),
    ("tool", "license", "0.333333333", "gpu_hour", {"team": "red"}),
    ("egress", "network", "0.09", "gb", {"path": "internet"}),
    ("put", "storage", "0.005", "thousand_requests", {"op": "write"}),
    ("disk", "storage", "0.023", "gib_month", {"op": "stored"}),
)
_BROKEN: Final = (
    b'{"planted": true, "time_ms": ',
    b'{"planted": true}',
    b'{"planted": true, "source": "fleet", "id": "x", "time_ms": "soon", "job_id": "bad", "type": "started"}',
    (
        b'{"planted": true, "source": "fleet", "id": "x", "time_ms": 2000000000000, "job_id": "bad", "type": "started",'
        b' "node": "bad", "interval_ms": 1000, "gpu": "g0", "util_ratio": 0.5, "bytes": 1, "path": "internet",'
        b' "direction": "egress", "op": "write"}'
    ),
    (
        b'{"planted": true, "source": "fleet", "id": "x", "time_ms": 1704067200000, "job_id": "bad", "type": "gone",'
        b' "node": "bad", "interval_ms": 1000, "gpu": "g0", "util_ratio": 1.5, "bytes": -1}'
    ),
)

Json = dict[str, Any]


class Event(NamedTuple):
    """One record to publish."""

    topic: str
    key: str
    value: bytes


@dataclass(frozen=True)
class _Job:
    job_id: str
    node: str
    begin_s: int
    gpus: list[str]
    fields: Json
    told: bool  # else it is known by its samples alone
    split_s: int | None  # preempted and started again here


def length_ms(seconds: int) -> int:
    """From the first event of a fleet to the end of the last job that has one."""
    return DAY_AFTER_MS + (START_SPREAD_S + seconds) * 1000


@dataclass
class Fleet:
    """`jobs` jobs of `seconds` s each, a sample a second: a bit more than jobs x seconds events."""

    seed: int
    jobs: int
    seconds: int
    begin_ms: int = BEGIN_MS
    _number: int = 0
    _due: dict[int, list[Event]] = field(default_factory=dict)  # by second of arrival

    @property
    def as_of_ms(self) -> int:
        """What goes on is paid up to here."""
        return self.begin_ms + length_ms(self.seconds) + 2 * MINUTE_MS

    def events(self) -> Iterator[Event]:
        """All of them, in the order of their arrival."""
        rng = random.Random(self.seed)
        for sku, component, usd, per, named in _SKUS:
            price = {"component": component, "usd": usd, "per": per, "effective_ms": 0, **named}
            yield self._event("prices", f"{sku}@0", self.begin_ms, sku=sku, **price)
        half = self.jobs // 2
        yield from self._day(rng, range(half), 0)
        yield from self._day(rng, range(half, self.jobs), DAY_AFTER_MS // 1000)

    def _day(self, rng: random.Random, numbers: range, base_s: int) -> Iterator[Event]:
        jobs = [self._job(rng, number, base_s) for number in numbers]
        end_s = base_s + START_SPREAD_S + self.seconds
        self._reference(rng, base_s, end_s)
        for job in jobs:
            self._lifecycle(rng, job)
        for second in range(base_s, end_s + 1000):
            for job in jobs:
                if job.begin_s <= second < job.begin_s + self.seconds:
                    self._live(rng, job, second)
            for event in self._due.pop(second, ()):
                yield event
                if rng.random() < (0.004 if event.topic == "gpu" else 0.05):  # a producer tries again
                    self._later(second + rng.randrange(1, 60), event)
                if rng.random() < 0.005:
                    yield Event(event.topic, event.key, rng.choice(_BROKEN))
        if base_s:  # stragglers of the day before: too late in their partitions
            for job_id in (f"job-{rng.randrange(self.jobs // 2):04}" for _ in range(20)):
                yield self._event("jobs", job_id, self.begin_ms, job_id=job_id, type="heartbeat")

    def _job(self, rng: random.Random, number: int, base_s: int) -> _Job:
        fields = {
            "gpu_type": rng.choice(("H100", "A100", "unknown")),
            "purchase": rng.choice(("spot", "on_demand")),
        }
        begin_s = base_s + rng.randrange(START_SPREAD_S)
        split = rng.random() < 0.3
        return _Job(
            f"job-{number:04}",
            f"node-{number % max(self.jobs // 4, 1):03}",
            begin_s,
            [f"g{i}" for i in range(rng.choice((1, 1, 2, 4, 8)))],
            fields,
            rng.random() < 0.8,
            begin_s + self.seconds // 2 if split else None,
        )

    def _reference(self, rng: random.Random, base_s: int, end_s: int) -> None:
        for number in range(max(self.jobs // 4, 1)):
            node = f"node-{number:03}"
            about = {"node": node, "gpu_type": rng.choice(("H100", "A100")), "purchase": "on_demand"}
            self._at(base_s, "nodes", node, type="provisioned", gpu_count=8, **about)
            if not base_s or number % 2:
                self._at(end_s, "nodes", node, type="terminated", **about)
        if base_s:
            # Prices that come late: for what is archived by then, and for what runs.
            for sku, gpu_type, effective_s, arrives in (
                ("h100", "H100", self.seconds // 2, 0.5),
                ("a100x", "A100", base_s + self.seconds // 3, 0.8),
            ):
                effective_ms = self.begin_ms + effective_s * 1000 + 345
                price = {"component": "gpu", "usd": "5.5", "per": "gpu_hour", "gpu_type": gpu_type}
                at_s = base_s + int((end_s - base_s) * arrives)
                key = f"{sku}@{effective_ms}"
                self._at(at_s, "prices", key, sku=sku, effective_ms=effective_ms, cloud=None, **price)

    def _lifecycle(self, rng: random.Random, job: _Job) -> None:
        if not job.told:
            return
        begin_s, end_s = job.begin_s, job.begin_s + self.seconds
        about = {"owner": rng.choice(("ann", "bob")), "team": rng.choice(("red", "blue"))}
        first: Json = {**about, **job.fields}
        self._tell(begin_s - 1, job, type="queued", cpu_count=16, **first)
        self._tell(begin_s, job, type="allocated", nodes={job.node: len(job.gpus)})
        self._tell(begin_s + 5, job, type="started")
        attempt = 1
        if job.split_s is not None:
            self._tell(job.split_s - 30, job, type="checkpointed")
            self._tell(job.split_s, job, type="preempted", reason="spot_reclaim")
            attempt = 2
            self._tell(job.split_s + 3, job, attempt=2, type="started")
        if begin_s < DAY_AFTER_MS // 1000 or rng.random() < 0.8:  # some go on
            kind = rng.choice(("completed", "failed", "cancelled"))
            self._tell(end_s, job, delay_s=rng.choice((0, 0, 40)), attempt=attempt, type=kind)

    def _tell(self, at_s: int, job: _Job, delay_s: int = 0, **value: Any) -> None:
        event = self._event("jobs", job.job_id, self.begin_ms + at_s * 1000, job_id=job.job_id, **value)
        self._later(max(at_s, 0) + delay_s, event)

    def _live(self, rng: random.Random, job: _Job, second: int) -> None:
        """One second of a job: its sample, and now and then amounts."""
        attempt = 2 if job.split_s is not None and second >= job.split_s else 1
        time_ms = self.begin_ms + second * 1000 + rng.randrange(1000)
        dice = rng.random()
        delay_s = 0 if dice > 0.05 else rng.randrange(1, 100) if dice > 0.002 else rng.randrange(660, 900)
        ratios = [rng.randrange(1001) / 1000 for _ in job.gpus]
        sample = {"node": job.node, "gpus": job.gpus, "util_ratio": ratios, **job.fields}
        if second % 3 == 0:
            sample["tensor_ratio"] = ratios[::-1]
        self._later(
            second + delay_s,
            self._event(
                "gpu", job.job_id, time_ms, job_id=job.job_id, attempt=attempt, interval_ms=1000, **sample
            ),
        )
        if dice > 0.95:
            amount = {"job_id": job.job_id, "attempt": attempt, "interval_ms": rng.randrange(90_000)}
            bytes_ = rng.randrange(10**11)
            event = (
                self._event(
                    "network", job.job_id, time_ms, path="internet", direction="egress", bytes=bytes_, **amount
                )
                if rng.random() < 0.5
                else self._event(
                    "storage", job.job_id, time_ms, op=rng.choice(("write", "stored")), bytes=bytes_,
                    requests=rng.randrange(10**4), **amount,
                )
            )  # fmt: skip
            self._later(second, event)

    def _at(self, second: int, topic: str, key: str, /, **value: Any) -> None:
        self._later(second, self._event(topic, key, self.begin_ms + second * 1000, **value))

    def _later(self, second: int, event: Event) -> None:
        self._due.setdefault(second, []).append(event)

    def _event(self, topic: str, key: str, time_ms: int, /, **value: Any) -> Event:
        self._number += 1
        about = {"source": "fleet", "id": f"e{self._number}", "time_ms": time_ms}
        return Event(topic, key, orjson.dumps({**about, **value}))
