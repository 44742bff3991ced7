"""One job of the demo fleet: its attempt, the GPUs it holds, and their utilisation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from typing import Final

from streams.demo.job_specs import JobSpec
from streams.demo.nodes import Held

#: Utilisation of a job scaled far beyond its batch size: its GPUs wait for each other.
_TOO_WIDE_RATIO: Final = 0.3
_BURST_MS: Final = 240_000


class State(Enum):
    """The state of an attempt."""

    queued = 0
    starting = 1
    running = 2
    ended = 3


class DemoJob:
    """A submitted job; `life` counts ended attempts, so that timers of earlier ones can be recognised."""

    def __init__(self, spec: JobSpec, seed: int) -> None:
        self.spec = spec
        self.rng = random.Random(f"{seed}/{spec.job_id}")
        self.attempt = 1
        self.life = 0
        self.state = State.queued
        self.held: Held = {}
        self.held_from_ms = 0
        self.extra: list[str] = []  # nodes added by a scale-out
        self.too_wide = False

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return sum(len(gpus) for gpus in self.held.values())

    @property
    def nodes(self) -> dict[str, int]:
        """How many GPUs it holds on each node."""
        return {node: len(gpus) for node, gpus in sorted(self.held.items())}

    def ended(self) -> Held:
        """Release everything; return what was held."""
        held, self.held = self.held, {}
        self.state = State.ended
        self.life += 1
        self.too_wide = False
        return held

    def util_ratios(self, time_ms: int, gpus: Sequence[int]) -> list[float]:
        """The recent utilisation of each GPU."""
        if self.state is not State.running:
            return [0.0] * len(gpus)
        mean = self.spec.util_ratio * (_TOO_WIDE_RATIO if self.too_wide else 1.0)
        if self.spec.metered and (time_ms // _BURST_MS) % 3:
            mean = 0.0  # interactive: its user is thinking
        spread = min(0.03, mean / 3)
        return [round(min(1.0, max(0.0, self.rng.gauss(mean, spread))), 3) for _ in gpus]

    def about(self, amount: int) -> int:
        """An amount near this one."""
        return int(amount * self.rng.uniform(0.8, 1.2))
