"""A job of random size and hardware of which some of the usual things are known, and what its GPUs do at an instant."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loadtest.labelled import market
from loadtest.labelled.ordinary import OrdinaryJob
from schemas.durations import MINUTE_MS

NODE_GPUS: Final = 8


class Use(NamedTuple):
    """What a GPU does: shares of the time, and watts."""

    util: float
    sm: float
    tensor: float
    power_w: float


WORK: Final = Use(0.9, 0.55, 0.3, 560)
NOTHING: Final = Use(0.0, 0.0, 0.0, 95)
SPIN: Final = Use(1.0, 0.03, 0.0, 170)


class PlantedJob(OrdinaryJob):
    """A job of which some of the usual things are known; what it does at an instant is told by functions."""

    def __init__(self, rng: random.Random, job_id: str, gpus: int, **about: Any) -> None:
        drawn = {
            "gpu_type": rng.choices(("H100", "A100", "L40S"), (3, 2, 1))[0],
            "purchase": rng.choice(("on_demand", "on_demand", "spot")),
            "team": f"lab-{rng.randrange(12)}",
            "owner": f"owner-{job_id}",
        }
        self.of = drawn | about
        super().__init__(rng, job_id, "planted", **self.of)
        self.gpus = gpus
        self.node_word = job_id
        self.sampled = rng.random() < 0.6
        self.reports = rng.random() < 0.5
        self.sample_ms = rng.choice((MINUTE_MS, MINUTE_MS, 2 * MINUTE_MS))
        self.beat_ms = rng.choice((1, 2, 5)) * MINUTE_MS
        self.measures: tuple[str, ...] = ("sm", "tensor", "power") if rng.random() < 0.5 else ()
        #: On spot all save their work: one that does not is a fault of its own.
        saves = rng.random() < 0.6 or self.of["purchase"] == "spot"
        self.saves_ms = rng.choice((30, 60, 120)) * MINUTE_MS if saves else 0
        self.use: Callable[[int, int], Use] = lambda _at_ms, _node: WORK
        self.moves: Callable[[int], bool] = lambda _at_ms: True
        self.times: Callable[[int], int] = lambda _at_ms: 1  # so much slower it goes on
        self.names_nodes = False
        #: What costs so much is declared: else `ceiling` would have told of it long ago.
        self.declares = rng.random() < 0.3 or self.usd_per_hour >= 400
        self._steps = 0

    @property
    def usd_per_hour(self) -> float:
        """What it costs; 0: nobody knows."""
        gpu_type = self.of["gpu_type"]
        if gpu_type not in market.ON_DEMAND_USD:
            return 0.0
        return self.gpus * market.mean_usd(gpu_type, self.of["purchase"])

    @property
    def cluster(self) -> str:
        """Where everything is sampled, or nothing is."""
        return "main" if self.sampled else "bare"

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes."""
        return [f"{self.node_word}-{node}" for node in range(-(-self.gpus // NODE_GPUS))]

    def held(self) -> dict[str, int]:
        """The GPUs of each node."""
        return {name: min(self.gpus - place * NODE_GPUS, NODE_GPUS) for place, name in enumerate(self.nodes)}

    def begin(self, at_ms: int, **value: Any) -> None:
        """Begin an attempt with all of its GPUs."""
        self._about["cluster"] = self.cluster
        if self.names_nodes:
            value = {"nodes": self.held(), **value}
        if self.declares and self.usd_per_hour:
            value = {"expected_usd_per_hour": f"{self.usd_per_hour:.4f}", **value}
        self.start(at_ms, self.gpus, **value)

    def run(self, from_ms: int, until_ms: int) -> None:
        """What is heard of it in a part of its time in which it runs."""
        if self.sampled:
            for at_ms in range(from_ms + self.sample_ms, until_ms, self.sample_ms):
                self._sample(at_ms)
        if self.reports:
            for at_ms in range(from_ms + self.beat_ms, until_ms, self.beat_ms):
                self._steps += self.rng.randrange(40, 60) // self.times(at_ms) if self.moves(at_ms) else 0
                self.tell("heartbeat", at_ms, progress={"step": self._steps})
        if self.saves_ms:
            for at_ms in range(from_ms + self.saves_ms, until_ms, self.saves_ms):
                # A loop that stands still does not come to its checkpoint.
                if self.moves(at_ms):
                    self.tell("checkpointed", at_ms)

    def earlier(self, at_ms: int) -> int:
        """Begin the job, in one of three after an attempt that breaks off; when its last attempt begins."""
        if self.rng.random() < 0.33:
            begin_ms = at_ms
            until_ms = begin_ms + int(self.rng.uniform(40, 90) * MINUTE_MS)
            self.begin(begin_ms)
            self.run(begin_ms, until_ms)
            is_spot = self.of["purchase"] == "spot"
            self.tell(
                "preempted" if is_spot else "failed",
                until_ms,
                reason="spot_reclaim" if is_spot else "node_failure",
            )
            self.attempt += 1
            at_ms = until_ms + int(self.rng.uniform(2, 8) * MINUTE_MS)
        self.begin(at_ms)
        return at_ms

    def node(self, name: str, kind: str, at_ms: int, gpus: int) -> None:
        """Say of a node that it is there, or no longer."""
        said = {"source": self.source, "id": f"{len(self.events)}", "time_ms": at_ms, "node": name}
        about = {key: self.of[key] for key in ("gpu_type", "purchase")}
        where = {"region": "us-east-1", "cluster": self.cluster}
        self.events.append((at_ms, "nodes", {**said, **about, **where, "type": kind, "gpu_count": gpus}))

    def _sample(self, at_ms: int) -> None:
        for place, (name, gpus) in enumerate(self.held().items()):
            use = self.use(at_ms, place)
            value: dict[str, Any] = {
                "node": name, "attempt": self.attempt, "interval_ms": self.sample_ms,
                "gpus": [str(gpu) for gpu in range(gpus)],
                "util_ratio": [self._noisy(use.util) for _ in range(gpus)],
                "memory_used_mib": [62_000] * gpus,
            }  # fmt: skip
            if "sm" in self.measures:
                value["sm_ratio"] = [self._noisy(use.sm) for _ in range(gpus)]
            if "tensor" in self.measures:
                value["tensor_ratio"] = [self._noisy(use.tensor, 0.005) for _ in range(gpus)]
            if "power" in self.measures:
                value["power_w"] = [round(self.rng.gauss(use.power_w, 8)) for _ in range(gpus)]
            self.say("gpu", at_ms, **value, **self._about)

    def _noisy(self, share: float, sigma: float = 0.02) -> float:
        if share in (0.0, 1.0):
            return share
        return round(min(max(self.rng.gauss(share, sigma), 0.0), 1.0), 3)
