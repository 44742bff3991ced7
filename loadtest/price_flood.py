"""What a flood of prices costs: `python -m loadtest.price_flood`.

First a shard with live jobs to which revisions of many SKUs come, each SKU's in order of time, within two
ticks, at n, 2n and 4n revisions: what they cost must grow no faster than they do. Then `trainfare replay` of
jobs and spot prices, once interleaved by time and once with all prices in front: the same dollars, and the
one no slower than twice the other.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.latency_world import WorldError
from loadtest.replayed import replayed
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


def write_logs(folder: Path, jobs: int, prices: int, skus: int = 9) -> tuple[Path, Path]:
    """Logs of the same events: prices interleaved by time, and all of them in front."""
    rng = random.Random(7)
    first = [(T0_MS - 1, "prices", _price(sku, T0_MS - DAY_MS, 2.0)) for sku in range(skus)]
    spot = [(value["effective_ms"], "prices", value) for value in _values(skus, prices, T0_MS + _HISTORY_MS)]
    events: list[tuple[int, str, Json]] = []
    for number in range(jobs):
        begin_ms = T0_MS + rng.randrange(_HISTORY_MS - DAY_MS)
        end_ms = begin_ms + min(int(rng.lognormvariate(0, 1.3) * HOUR_MS / 2), DAY_MS)
        value = _started(number, rng.randrange(skus), begin_ms)
        events.append((begin_ms, "jobs", {**value, "id": "a", "type": "allocated"}))
        events.append((begin_ms + 1_000, "jobs", {**value, "id": "b", "time_ms": begin_ms + 1_000}))
        events.append(
            (end_ms + 2_000, "jobs", {**value, "id": "c", "type": "completed", "time_ms": end_ms + 2_000})
        )
    events.sort(key=lambda event: event[0])
    early = [(T0_MS, topic, {**value, "time_ms": T0_MS}) for _, topic, value in spot]
    mixed = sorted([*first, *spot, *events], key=lambda event: event[0])
    files = folder / "interleaved.jsonl", folder / "in_front.jsonl"
    for file, lines in zip(files, (mixed, [*first, *early, *events]), strict=True):
        with file.open("w") as out:
            out.writelines(json.dumps({"topic": topic, "value": value}) + "\n" for _, topic, value in lines)
    return files


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
    """Run both and print; 0 done, 1 a replay could not be run or the dollars differ."""
    options = _options(argv)
    compile_all()
    flooded(1_000, 10, 10)  # not measured: everything runs once before
    for revisions in (options.revisions // 4, options.revisions // 2, options.revisions):
        took_s, quiet_s = flooded(revisions, options.skus, options.jobs)
        say(
            f"{revisions} revisions of {options.skus} SKUs, {options.jobs} live jobs: {took_s:.2f} CPU s, "
            f"{took_s / revisions * 1e6:.0f} us each; the ticks without them {quiet_s:.2f} s"
        )
    if options.no_replay:
        return 0
    with tempfile.TemporaryDirectory(prefix="trainfare-flood-") as directory:
        files = write_logs(Path(directory), options.replay_jobs, options.replay_prices)
        try:
            found = [replayed(file, Path(directory) / file.stem, compared=False) for file in files]
        except WorldError as fault:
            sys.stderr.write(f"price_flood: {fault}\n")
            return 1
    for file, each in zip(files, found, strict=True):
        say(f"{file.stem}: {each['metering_s']:.1f} s, CPU {each['cpu_s']:.1f} s, {each['rows']} ledger rows")
    say(f"interleaved / in front: {found[0]['metering_s'] / found[1]['metering_s']:.2f}")
    if found[0]["totals"] != found[1]["totals"]:
        sys.stderr.write(f"price_flood: totals differ: {found[0]['totals']}, {found[1]['totals']}\n")
        return 1
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="price_flood", description=__doc__)
    parser.add_argument("--revisions", type=int, default=100_000, help="and half and a quarter of them")
    parser.add_argument("--skus", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=10_000, help="live jobs")
    parser.add_argument("--replay-jobs", type=int, default=5_918, help="three events each")
    parser.add_argument("--replay-prices", type=int, default=5_817, help="of nine SKUs")
    parser.add_argument("--no-replay", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
