"""One trace being written: its jobs, their lines, when each line comes, and which alerts are owed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.model import MINUTE_MS, Json, Line
from tests.strategies.values import line

TICK_MS = 10_000


USD = (1.25, 2.0, 2.5, 3.37, 6.88)  # prices of the list, which never change
LISTED: tuple[tuple[str, str, str, str, dict[str, str]], ...] = (
    *((f"gpu-{usd}", "gpu", f"{usd:.9f}", "gpu_hour", {"gpu_type": f"G{usd}"}) for usd in USD),
    ("egress", "network", "0.09", "gb", {"path": "internet"}),
    ("disk", "storage", "0.023", "gib_month", {"op": "stored"}),
    ("put", "storage", "0.005", "thousand_requests", {"op": "write"}),
)


def gpu_type(usd: float | None) -> str:
    """The type that costs so much by the list; None: a type that is not in it."""
    return "H100" if usd is None else f"G{usd}"


def price_list(time_ms: int) -> list[Line]:
    """The prices that all traces share."""
    return [
        line(
            "prices",
            {"source": "list", "id": sku, "time_ms": time_ms, "sku": sku, "component": component}
            | {"usd": usd, "per": per, "effective_ms": 0, **fields},
        )
        for sku, component, usd, per, fields in LISTED
    ]


@dataclass
class Trace:
    """Lines with the instants at which they come, in that order; beside them it needs the `price_list`."""

    name: str
    lines: list[tuple[int, Line]] = field(default_factory=list)
    must: set[tuple[str, str]] = field(default_factory=set)  # (rule, job) that has to fire
    quiet: set[str] = field(default_factory=set)  # jobs of which nothing may fire


class Teller:
    """Adds lines to a trace."""

    def __init__(
        self, name: str, rng: random.Random, begin_ms: int, end_ms: int, prices_ms: int | None = None
    ) -> None:
        self.name = name
        self.rng = rng
        self.begin_ms = begin_ms
        self.end_ms = end_ms
        self.prices_ms = begin_ms if prices_ms is None else prices_ms  # when the first prices are told
        self.trace = Trace(name)

    def say(self, topic: str, time_ms: int, comes_ms: int | None = None, /, **event: Any) -> None:
        """One event; one in ten comes up to 20 s late, the others at their time."""
        if comes_ms is None:
            comes_ms = time_ms + (self.rng.randrange(20_000) if self.rng.random() < 0.1 else 0)
        number = len(self.trace.lines)
        value: Json = {"source": self.name, "id": f"{number}", "time_ms": time_ms, **event}
        self.trace.lines.append((comes_ms, line(topic, value)))

    def job(self, job_id: str, kind: str, time_ms: int, /, **event: Any) -> None:
        self.say("jobs", time_ms, job_id=job_id, type=kind, **event)

    def price(
        self, job_id: str, usd: float, /, *, effective_ms: int = 0, comes_ms: int | None = None, **more: Any
    ) -> None:
        """A GPU-hour's price of one job alone, which may have revisions: such prices differ by account."""
        time_ms = self.prices_ms if comes_ms is None else comes_ms
        said = {"sku": f"gpu-{job_id}", "component": "gpu", "per": "gpu_hour", "account": job_id}
        money = {"usd": f"{usd:.9f}", "effective_ms": effective_ms}
        self.say("prices", time_ms, time_ms, **{**said, **money, **more})

    def begin(
        self, job_id: str, time_ms: int, /, *, kind: str = "started", usd: float | None = None, **event: Any
    ) -> None:
        """The first event of a job that names where it belongs: at a price of the list, or at its own."""
        about = {"account": job_id, "project": self.name, "owner": "ann", "team": "red"}
        self.job(job_id, kind, time_ms, **{**about, "gpu_type": gpu_type(usd), **event})

    def end(self, job_id: str, time_ms: int, /, *, attempt: int = 1, always: bool = False) -> None:
        """The end of a job; one job in twelve has none."""
        if always or self.rng.randrange(12):
            kind = self.rng.choice(("completed", "failed", "cancelled"))
            self.job(job_id, kind, time_ms, attempt=attempt)

    def instant(self, from_ms: int, to_ms: int) -> int:
        """An instant between two: a whole tick, a whole minute, one ms beside, or any."""
        at_ms = self.rng.randrange(from_ms, max(to_ms, from_ms + 1))
        step_ms = self.rng.choice((TICK_MS, MINUTE_MS, 1, 1))
        at_ms -= at_ms % step_ms
        at_ms += self.rng.choice((0, 0, 0, 1)) if step_ms > 1 else 0
        return max(at_ms, from_ms)

    def part(self, low: float, high: float) -> int:
        """An instant in this part of the trace's time."""
        span_ms = self.end_ms - self.begin_ms
        return self.instant(self.begin_ms + int(low * span_ms), self.begin_ms + int(high * span_ms))
