"""A worker's shard manager over the real engine and a real store, fed by hand, and the audit of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.tables import PRICES
from sinks.clickhouse import ClickHouseStore
from streams.clock import SystemClock
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.rows import price_table
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.from_settings import engine
from streams.selfcheck.audit.live import LiveAudit, asking
from streams.selfcheck.audit.verdict import AuditFinding, Verdict
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.ingest.watermarks import Mark, ReplayWatermarks
from streams.worker.options import ShardManagerOptions
from streams.worker.shard_manager import ShardManager
from tests.worker.test_shard_manager import Consumer

T0 = 1_704_067_200_000
MINUTE_MS = 60_000

PRICES_ASKED = (
    {"sku": "gpu", "component": "gpu", "usd": "3.6", "per": "instance_hour", "gpus": 7},
    {"sku": "licence", "component": "license", "usd": "0.123456789", "per": "gpu_hour"},
    {"sku": "wire", "component": "network", "usd": "0.09", "per": "gb"},
)


def price(asked: dict[str, Any]) -> PriceEvent:
    value = {"source": "s", "id": asked["sku"], "time_ms": T0, "effective_ms": 0, **asked}
    event = decode("prices", json.dumps(value).encode(), (), 2**62)
    assert isinstance(event, PriceEvent), event
    return event


def lifecycle(job: str, kind: str, after_ms: int, **named: object) -> dict[str, object]:
    return {
        "source": "s",
        "id": f"{job}{kind}{after_ms}",
        "time_ms": T0 + after_ms,
        "job_id": job,
        "type": kind,
        **named,
    }


def traffic(job: str, after_ms: int, amount: int) -> dict[str, object]:
    return {
        "source": "s",
        "id": f"{job}{after_ms}",
        "time_ms": T0 + after_ms,
        "interval_ms": 30_000,
        "job_id": job,
        "bytes": amount,
        "path": "internet",
        "direction": "egress",
    }


def sample(job: str, after_ms: int, node: str = "n9") -> dict[str, object]:
    return {
        "source": "s",
        "time_ms": T0 + after_ms,
        "interval_ms": 10_000,
        "node": node,
        "job_id": job,
        "gpus": ["0", "1"],
        "util_ratio": [0.5, 0.25],
    }


def node(name: str, kind: str, after_ms: int) -> dict[str, object]:
    return {
        "source": "s",
        "id": f"{name}{kind}",
        "time_ms": T0 + after_ms,
        "node": name,
        "type": kind,
        "gpu_count": 8,
    }


class Lab:
    """One shard, number 0."""

    def __init__(self, store: ClickHouseStore) -> None:
        self.store = store
        self.consumer = Consumer()
        self.clock_ms = T0
        self.ends: dict[tuple[str, int], int] = {}
        self.committed: dict[tuple[str, int], int] = {}
        options = ShardManagerOptions("t.", lambda: self.clock_ms, lambda: self.clock_ms)
        events = [price(asked) for asked in PRICES_ASKED]
        reference = ReferenceLog(PriceBook.empty().with_events(events))
        store.insert(PRICES, price_table(events, 1), "prices")
        self.watermarks = ReplayWatermarks()
        self.shard_manager = ShardManager(
            store,
            engine(ShardSettings(run_start_ms=2**60)),
            lambda: self.consumer,
            options,
            watermarks=self.watermarks,
            reference=reference,
        )
        self.audit = LiveAudit(
            self.shard_manager,
            asking(store),
            SystemClock(),
            lambda topic, number: self.ends.get((topic, number)),
            lambda places: {place: self.committed[place] for place in places if place in self.committed},
            lambda: self.consumer.member,
            again_s=0,
        )

    @property
    def shard(self) -> Shard:
        """The one that is held."""
        shard = self.shard_manager.owned[0].shard
        assert isinstance(shard, Shard)
        return shard

    async def own(self, generation: int = 1) -> None:
        self.shard_manager.assigned({TP(f"t.{topic}", 0) for topic in SHARD_TOPICS}, generation)
        await self.shard_manager.restore_missing()

    async def send(self, topic: str, events: Sequence[dict[str, object] | bytes]) -> None:
        start = self.ends.get((topic, 0), 0)
        records = [
            LogRecord(start + at, self.clock_ms, e if isinstance(e, bytes) else json.dumps(e).encode())
            for at, e in enumerate(events)
        ]
        self.ends[topic, 0] = start + len(records)
        await self.shard_manager.ingest_batches(LogBatch(topic, 0, start, start + len(records), records))

    async def pass_time(self, after_ms: int) -> None:
        """All that was sent is folded and judged, and what goes on is paid up to then."""
        self.clock_ms = T0 + after_ms
        self.watermarks.mark = Mark(self.clock_ms, dict(self.ends))
        await self.shard_manager.ingest.advance_all()
        assert await self.shard_manager.checkpoint(open_attempts=True)
        assert self.shard_manager.fault is None

    async def live(self) -> Lab:
        """A small fleet of which something of everything happened."""
        await self.own()
        start = {"gpu_count": 3, "nodes": {"n1": 3}}
        await self.send("nodes", [node("n1", "provisioned", 0)])
        jobs = [lifecycle(f"j{at}", "started", at * 1000, **start) for at in range(5)]
        await self.send("jobs", [*jobs, jobs[0], b"{", lifecycle("j1", "completed", 5 * MINUTE_MS)])
        await self.send("network", [traffic("j2", 70_000, 12_345_678_901), traffic("j3", 95_000, 7)])
        await self.send("gpu", [sample("m1", 30_000), sample("m1", 100_000), b"[]"])
        await self.pass_time(7 * MINUTE_MS)
        await self.pass_time(9 * MINUTE_MS + 30_000)
        return self

    async def verdict(self) -> Verdict:
        verdict = await self.audit.run_twice()
        assert verdict is not None
        return verdict

    def run(self, sql: str) -> None:
        """Break something in the tables."""
        self.store._connection.call(lambda client: client.command(sql))


def fault(verdict: Verdict, check: str) -> AuditFinding:
    """The one thing that is wrong."""
    assert {each.check for each in verdict.faults} == {check}, verdict.faults
    return verdict.faults[0]
