"""Plans the canary's runs as a function of time: their events and their known cost.

Two workers that both believe to own the canary build equal events for equal instants, which count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from schemas.reserved import CANARY, CANARY_JOB_PREFIX
from streams.engine.pricing.book import PriceBook
from streams.topics import Topic
from streams.transport.partitions import partition_of

#: A run holds one GPU for this long, in whole seconds: each row of its cost is then a whole number of nano-dollars.
RUN_MS: Final = 10_000
USD_PER_GPU_HOUR: Final = "0.00036"
EXPECTED_NANO: Final = 1_000  # for 10 s
SAMPLED_GPU_S: Final = RUN_MS // 1_000
NETWORK_BYTES: Final = 1_000
#: A new price is effective a little before it is published, so that the next run can use it.
_PRICE_LEAD_MS: Final = 2 * RUN_MS

Event = tuple[Topic, bytes, Mapping[str, Any]]  # (topic, key, event)


@dataclass(frozen=True)
class CanaryOptions:
    """The canary's settings, resolved."""

    partitions: int
    interval_ms: int = 60_000
    late_after_ms: int = 10_000
    tolerance_ratio: float = 0.001


class CanaryRun(NamedTuple):
    """One run, due at `at_ms`."""

    at_ms: int
    shard: int
    job_id: str

    @property
    def end_ms(self) -> int:
        """Return when its job ended."""
        return self.at_ms // 1_000 * 1_000

    @property
    def begin_ms(self) -> int:
        """Return when its job began to hold its GPU."""
        return self.end_ms - RUN_MS


def run_at(at_ms: int, options: CanaryOptions) -> CanaryRun:
    """The run due at an instant; successive runs are of successive shards."""
    shard = at_ms // options.interval_ms % options.partitions
    number = 0
    while partition_of(_job_id(at_ms, number).encode(), options.partitions) != shard:
        number += 1
    return CanaryRun(at_ms, shard, _job_id(at_ms, number))


def _job_id(at_ms: int, number: int) -> str:
    return f"{CANARY_JOB_PREFIX}{at_ms}.{number}"


def events_of(run: CanaryRun) -> Iterator[Event]:
    """Yield the events of a run, in sending order.

    The end comes first: a sender that dies in between leaves no job that accrues forever.
    """
    begin_ms, end_ms = run.begin_ms, run.end_ms
    owned = {"gpu_count": 1, "cloud": CANARY}
    yield _event(run, Topic.JOBS, "completed", end_ms, type="completed")
    yield _event(run, Topic.JOBS, "queued", begin_ms - 1_000, type="queued", **owned)
    yield _event(run, Topic.JOBS, "allocated", begin_ms, type="allocated", **owned)
    yield _event(run, Topic.JOBS, "started", begin_ms + RUN_MS // 2, type="started", **owned)
    of_interval = {"interval_ms": RUN_MS, "cloud": CANARY}
    sample = {"node": CANARY, "gpus": ["0"], "util_ratio": [1.0]}
    yield _event(run, Topic.GPU, "gpu", end_ms, **of_interval, **sample)
    amount = {"bytes": NETWORK_BYTES, "path": "same_zone", "direction": "egress"}
    yield _event(run, Topic.NETWORK, "network", end_ms, **of_interval, **amount)


def _event(run: CanaryRun, topic: Topic, name: str, time_ms: int, **fields: Any) -> Event:
    common = {"id": f"{run.job_id}.{name}", "source": CANARY, "time_ms": time_ms}
    return topic, run.job_id.encode(), common | {"job_id": run.job_id, "attempt": 1} | fields


def price_at(now_ms: int) -> Event:
    """The record of its price.

    Effective from now, not for all time: a price of the past would load every archived job into memory.
    """
    effective_ms = now_ms - _PRICE_LEAD_MS
    record = {
        "id": f"{CANARY}@{effective_ms}",
        "source": CANARY,
        "time_ms": now_ms,
        "sku": CANARY,
        "component": "gpu",
        "usd": USD_PER_GPU_HOUR,
        "per": "gpu_hour",
        "cloud": CANARY,
        "effective_ms": effective_ms,
    }
    return Topic.PRICES, f"{CANARY}@{effective_ms}".encode(), record


class CanaryPrice:
    """The canary's own price: published once, used when the book has it."""

    def __init__(self, book: Callable[[], PriceBook]) -> None:
        self._book = book
        self._seen: PriceBook | None = None
        self._from_ms: int | None = None
        self._asked_ms: int | None = None
        self.first_asked_ms = 0

    def from_ms(self) -> int | None:
        """Return from when the book has a price for it."""
        book = self._book()
        if book is not self._seen:
            effective_ms = [event.effective_ms for event in book.events if event.sku == CANARY]
            self._seen, self._from_ms = book, min(effective_ms, default=None)
        return self._from_ms

    def is_due(self, now_ms: int, every_ms: int) -> bool:
        """Whether to publish it now."""
        asked_ms = self._asked_ms
        return self.from_ms() is None and (asked_ms is None or now_ms - asked_ms >= every_ms)

    def record(self, now_ms: int) -> Event:
        """The record, the same each time: otherwise every retry would be another revision."""
        if self._asked_ms is None:
            self.first_asked_ms = now_ms
        self._asked_ms = now_ms
        return price_at(self.first_asked_ms)
