"""What a flood of prices costs a shard with live jobs: `python -m loadtest.price_flood`.

Revisions of many SKUs come, each SKU's in order of time, within two ticks, at n, 2n and 4n revisions: what they
cost must grow no faster than they do. `loadtest.long_history` has prices in a replay.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from loadtest.saying import say
from schemas.decode import decode
from schemas.durations import DAY_MS, HOUR_MS, NEVER_MS
from schemas.events import PriceEvent
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.kernels.warm import compile_all
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS, Ticks
from streams.engine.shard.shard import Shard

T0_MS: Final = 1_772_366_400_000
_HISTORY_MS: Final = 90 * DAY_MS
#: Log time of a flood: what comes in ten seconds is seen by one tick.
_TICKS: Final = 2
_AT_ONCE: Final = 1_000

Json = dict[str, Any]


def flooded(revisions: int, skus: int, jobs: int) -> tuple[float, float]:
    """CPU seconds of the revisions, and of as many ticks and checkpoints without any."""
    fleet = _Fleet(skus, jobs)
    quiet_s = fleet.run([()] * _TICKS)
    history = list(_history(skus, revisions))
    per_tick = -(-revisions // _TICKS)
    return fleet.run([history[at : at + per_tick] for at in range(0, revisions, per_tick)]) - quiet_s, quiet_s


class _Fleet:
    """One shard and its reference log."""

    def __init__(self, skus: int, jobs: int) -> None:
        rng = random.Random(1)
        first = [_event(_price(sku, T0_MS - 2 * _HISTORY_MS, 2.0)) for sku in range(skus)]
        self._reference = ReferenceLog(PriceBook.empty().with_events(first))
        self._shard = Shard(0, ShardSettings(job_horizon_ms=10 * DAY_MS), self._reference.book)
        self._view = self._reference.view()
        self._now_ms, self._version = T0_MS, 0
        started = sorted(T0_MS - rng.randrange(HOUR_MS, 3 * DAY_MS) for _ in range(jobs))
        values = [_started(number, rng.randrange(skus), at_ms) for number, at_ms in enumerate(started)]
        records = [
            LogRecord(offset, T0_MS, json.dumps(value).encode(), []) for offset, value in enumerate(values)
        ]
        self._shard.fold(LogBatch("jobs", 0, 0, len(records), records))
        self.run([()])

    def run(self, news: Sequence[Sequence[PriceEvent]]) -> float:
        """A fold of prices for each thousand of them, as they come out of the log; a tick and a checkpoint for each piece."""
        began_s = time.process_time()
        for events in news:
            self._now_ms += TICK_MS
            for at in range(0, len(events), _AT_ONCE):
                part = events[at : at + _AT_ONCE]
                book = self._reference.book.with_events(part)
                self._reference.extend([(self._now_ms, event) for event in part], [], book, {})
                self._shard.set_prices(book)
            self._shard.judge(Ticks(self._now_ms, self._now_ms), self._view)
            self._store()
        return time.process_time() - began_s

    def _store(self) -> None:
        more = True
        while more:
            self._version += 1
            more = self._shard.checkpoint(self._now_ms, self._version, open_attempts=False).more


def _history(skus: int, count: int) -> Iterator[PriceEvent]:
    return (_event(value) for value in _values(skus, count, T0_MS))


def _values(skus: int, count: int, until_ms: int) -> list[Json]:
    """Spot prices of the time up to an instant, in order."""
    rng = random.Random(2)
    instants = sorted(until_ms - rng.randrange(_HISTORY_MS) for _ in range(count))
    return [_price(rng.randrange(skus), at_ms, 1 + rng.random()) for at_ms in instants]


def _price(sku: int, effective_ms: int, usd: float) -> Json:
    return {
        "source": "spot",
        "id": f"{sku}@{effective_ms}",
        "time_ms": effective_ms,
        "sku": f"spot-{sku}",
        "component": "gpu",
        "usd": f"{usd:.4f}",
        "per": "gpu_hour",
        "effective_ms": effective_ms,
        **_fields(sku),
    }


def _started(number: int, sku: int, time_ms: int) -> Json:
    return {
        "source": "load",
        "id": "s",
        "time_ms": time_ms,
        "job_id": f"job-{number}",
        "type": "started",
        "gpu_count": 8,
        "team": f"team-{number % 20}",
        **_fields(sku),
    }


def _fields(sku: int) -> Json:
    """Eight GPU types in as many zones as it takes."""
    return {"gpu_type": f"gpu-{sku % 8}", "zone": f"zone-{sku // 8}"}


def _event(value: Json) -> PriceEvent:
    event = decode("prices", json.dumps(value).encode(), (), NEVER_MS)
    assert isinstance(event, PriceEvent), event
    return event


def main(argv: Sequence[str] | None = None) -> int:
    """Measure three floods, each after the same warm-up."""
    options = _options(argv)
    compile_all()
    flooded(1_000, 10, 10)  # not measured: everything runs once before
    for revisions in (options.revisions // 4, options.revisions // 2, options.revisions):
        took_s, quiet_s = flooded(revisions, options.skus, options.jobs)
        say(
            f"{revisions} revisions of {options.skus} SKUs, {options.jobs} live jobs: {took_s:.2f} CPU s, "
            f"{took_s / revisions * 1e6:.0f} us each; the ticks without them {quiet_s:.2f} s"
        )
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="price_flood", description=__doc__)
    parser.add_argument("--revisions", type=int, default=100_000, help="and half and a quarter of them")
    parser.add_argument("--skus", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=10_000, help="live jobs")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
