"""Shards without Kafka, filled with jobs of one node of eight GPUs each: by their life, or by samples alone."""

from __future__ import annotations

import json
from collections import Counter

from schemas.decode import decode
from schemas.events import PriceEvent
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard

T0_MS = 1_772_366_400_000
GPUS = 8
#: Each message speaks of so many seconds: a minute's rows are those of a message a second.
SAMPLED_S = 10
_GPU_IDS = [f"GPU-{gpu}" for gpu in range(GPUS)]
_BATCH = 2_000


class Load:
    """Shards, and the clock of what is fed to them."""

    def __init__(self, shards: int, skus: int = 1) -> None:
        self.now_ms = T0_MS
        self._skus = skus
        self._version = 0
        self.book = PriceBook.empty().with_events([_price(sku, "2.5", 0) for sku in range(skus)])
        self.shards = [Shard(number, ShardSettings(), self.book) for number in range(shards)]

    def start(self, jobs: int) -> None:
        """So many jobs begin."""
        for shard in self.shards:
            values = [
                {
                    "source": "load", "id": "s", "time_ms": self.now_ms, "job_id": _job(job), "type": "started",
                    "nodes": {_node(job): GPUS}, "gpu_type": _type(job % 1000 * 2), "owner": "me", "team": "t",
                }
                for job in range(shard.number, jobs, len(self.shards))
            ]  # fmt: skip
            self._feed(shard, "jobs", values)

    def samples(self, jobs: int, event_s: int) -> None:
        """So much event time goes by, and all jobs are sampled."""
        for _ in range(0, event_s, SAMPLED_S):
            self.now_ms += SAMPLED_S * 1000
            for shard in self.shards:
                values = [
                    {
                        "source": "load", "time_ms": self.now_ms, "interval_ms": SAMPLED_S * 1000,
                        "job_id": _job(job), "node": _node(job), "gpus": _GPU_IDS, "gpu_type": _type(0),
                        "util_ratio": [(job + gpu) % 10 / 10 for gpu in range(GPUS)],
                    }
                    for job in range(shard.number, jobs, len(self.shards))
                ]  # fmt: skip
                self._feed(shard, "gpu", values)

    def reprice(self, sku: int) -> None:
        """A SKU costs more from five minutes ago on."""
        self.book = self.book.with_events([_price(sku, "3.5", self.now_ms - 300_000)])
        for shard in self.shards:
            shard.set_prices(self.book)

    def checkpoint(self, *, open_attempts: bool) -> Counter[str]:
        """All shards store what they have, in as many checkpoints as it takes; rows by table."""
        rows: Counter[str] = Counter()
        for shard in self.shards:
            more = True
            while more:
                self._version += 1
                taken = shard.checkpoint(self.now_ms, self._version, open_attempts=open_attempts)
                rows.update({name: table.num_rows for name, table in taken.tables.items()})
                more = taken.more
        return rows

    def _feed(self, shard: Shard, topic: str, values: list[dict[str, object]]) -> None:
        begin = shard.position.next.get(topic, 0)
        for first in range(0, len(values), _BATCH):
            part = values[first : first + _BATCH]
            at = begin + first
            records = [
                LogRecord(at + i, self.now_ms, json.dumps(value).encode()) for i, value in enumerate(part)
            ]
            if shard.fold(LogBatch(topic, shard.number, at, at + len(part), records)) is not None:
                raise AssertionError("a hole")


def _job(job: int) -> str:
    return f"train-{job:06}"


def _node(job: int) -> str:
    return f"node-{job:06}"


def _type(number: int) -> str:
    return f"H{number}"


def _price(sku: int, usd: str, effective_ms: int) -> PriceEvent:
    value = {
        "source": "load", "id": f"p{sku}.{effective_ms}", "time_ms": T0_MS, "sku": f"gpu-{sku}", "component": "gpu",
        "usd": usd, "per": "gpu_hour", "effective_ms": effective_ms, "gpu_type": _type(sku),
    }  # fmt: skip
    event = decode("prices", json.dumps(value).encode(), (), T0_MS)
    assert isinstance(event, PriceEvent)
    return event
