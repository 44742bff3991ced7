"""What health and metrics say of a worker: counts of this process only, and reasons in words."""

from __future__ import annotations

from dataclasses import dataclass

from sinks.errors import SinkBusy
from streams.notify.store_faults import DeliveryFaults
from streams.worker.health.status import StatusCollector
from streams.worker.health.worker_status import CanaryStatus
from streams.worker.shards.owned_shard import OwnedShard
from tests.worker.fakes import CountingShard
from tests.worker.scene import KAFKA, NOW_MS, Scene


def count(owned: OwnedShard, more: int) -> None:
    shard = owned.shard
    assert isinstance(shard, CountingShard)
    shard.state.count["jobs"] += more


def test_a_shard_brings_no_counts_of_its_owners_before() -> None:
    scene = Scene()
    owned = scene.shard_manager.hold(0, counted=1_000)
    assert scene.look().records["applied"] == 0
    count(owned, 5)
    assert scene.look().records["applied"] == 5


def test_what_a_shard_counts_before_the_first_look_at_it_is_counted() -> None:
    scene = Scene()
    count(scene.shard_manager.hold(0, counted=1_000), 5)
    assert scene.look().records["applied"] == 5


def test_counts_never_fall_when_a_shard_leaves_or_comes_back() -> None:
    scene = Scene()
    first, second = scene.shard_manager.hold(0), scene.shard_manager.hold(1)
    scene.look()
    count(first, 5)
    count(second, 7)
    assert scene.look().records["applied"] == 12
    del scene.shard_manager.owned[1]
    assert scene.look().records["applied"] == 12
    again = scene.shard_manager.hold(1, counted=500)
    assert scene.look().records["applied"] == 12
    count(again, 1)
    assert scene.look().records["applied"] == 13


def test_ready_once_all_shards_are_held() -> None:
    scene = Scene()
    scene.consumer.numbers = {0, 1, 2}
    scene.shard_manager.hold(0)
    status = scene.look()
    assert (status.shards_held, status.shards_restoring) == (1, 2)
    assert scene.failing() == {"shards": "2 of 3 shards are being restored"}
    scene.shard_manager.hold(1)
    scene.shard_manager.hold(2)
    assert scene.failing() == {}


def test_before_the_consumer_starts_the_group_is_being_joined() -> None:
    scene = Scene()
    scene.consumer.started = False
    assert scene.failing() == {"group": "joining consumer group g at Kafka at kafka-1:9092"}
    none = StatusCollector(scene.shard_manager, lambda: None, KAFKA, scene.log_time)
    assert [check.name for check in none.collect().checks if not check.ok] == ["group"]


def test_kafka_that_stays_silent_for_a_session_is_named() -> None:
    scene = Scene()
    assert scene.failing() == {}
    scene.consumer.member = False
    scene.clock.advance(10_000)
    assert set(scene.failing()) == {"group"}, "a rebalance may take that long"
    scene.clock.advance(1)
    assert scene.failing()["kafka"] == "Kafka at kafka-1:9092 has not answered for 10 s"
    scene.consumer.member = True
    assert scene.failing() == {}


def test_the_checkpoint_ages_only_while_something_waits() -> None:
    scene = Scene()
    assert scene.look().checkpoint_age_ms is None, "nothing was stored yet"
    scene.shard_manager.hold(0)
    scene.shard_manager.backlog_bytes = 10
    assert scene.look().checkpoint_age_ms is None
    scene.shard_manager.totals.checkpoints = 1
    assert scene.look().checkpoint_age_ms == 0
    scene.clock.advance(3_000)
    assert scene.look().checkpoint_age_ms == 3_000
    scene.shard_manager.backlog_bytes = 0
    assert scene.look().checkpoint_age_ms == 0


def test_the_watermark_is_of_the_newest_event() -> None:
    scene = Scene()
    assert scene.look().watermark_age_ms is None
    scene.shard_manager.hold(0, newest_ms=NOW_MS - 5_000)
    scene.shard_manager.hold(1, newest_ms=NOW_MS - 90_000)
    assert scene.look().watermark_age_ms == 5_000


class Telling:
    waiting = 4

    def __init__(self) -> None:
        self.faults = DeliveryFaults()
        self.faults.failed("read_alerts", SinkBusy("not now"))


def test_totals_are_passed_on() -> None:
    scene = Scene()
    scene.shard_manager.totals.rows, scene.shard_manager.totals.refused = {"jobs": 3}, 2
    status = scene.look()
    assert (status.rows_stored, status.inserts_refused, status.notifier_pending) == ({"jobs": 3}, 2, None)
    scene.shard_manager.ingest.ingest_counts.of("gpu", 3).not_mine = 6
    scene.shard_manager.ingest.refetches = 2
    assert (scene.look().records_not_mine, scene.look().refetches) == (6, 2)
    telling = StatusCollector(scene.shard_manager, lambda: None, KAFKA, scene.log_time, Telling())
    assert telling.collect().notifier_pending == 4
    assert telling.collect().delivery_faults == {"read_alerts": 1}


@dataclass(frozen=True)
class Finding:
    check: str
    ok: bool


@dataclass(frozen=True)
class Verdict:
    as_of_ms: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Seen:
    runs: int = 5
    wrong: int = 1
    late: int = 2
    right_at_ms: int | None = NOW_MS - 61_000
    latency_ms: int | None = 2_500
    error_ratio: float | None = 0.0


def test_the_last_audit_and_the_canary_are_passed_on() -> None:
    scene = Scene()
    assert (scene.look().books_balanced, scene.look().audit_age_ms, scene.look().canary) == ({}, None, None)
    verdict = Verdict(
        NOW_MS - 7_000, (Finding("records", True), Finding("ledger", True), Finding("records", False))
    )
    watch = StatusCollector(
        scene.shard_manager, lambda: None, KAFKA, scene.log_time, audit=lambda: verdict, canary=lambda: Seen()
    )
    status = watch.collect()
    assert (status.books_balanced, status.audit_age_ms) == ({"records": False, "ledger": True}, 7_000)
    assert status.canary == CanaryStatus(
        runs=5, wrong=1, late=2, right_age_ms=61_000, latency_ms=2_500, error_ratio=0.0
    )
