"""Lag, standing still, and what excuses it, of a worker that is looked at each second."""

from __future__ import annotations

from dataclasses import dataclass

from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from streams.worker.health.probe import ProbeResult
from streams.worker.shards.owned_shard import OwnedShard
from tests.worker.scene import NOW_MS, Scene

GPU_0 = TP("trainfare.gpu", 0)


def seen(scene: Scene, **ends: int) -> ProbeResult:
    """What our own client says of shard 0, asked now."""
    places = {TP(f"trainfare.{topic}", 0): end for topic, end in ends.items()}
    return ProbeResult(scene.clock.monotonic_ms(), ends=places)


def folded(owned: OwnedShard, topic: str, offset: int) -> None:
    owned.shard.position.next[topic] = offset


def test_lag_is_known_while_the_consumer_stands_still() -> None:
    scene = Scene()
    folded(scene.shard_manager.hold(0), "gpu", 100)
    scene.consumer.ends[GPU_0] = LogEnd(100, 100, 1)
    assert scene.look().lag_records["gpu"] == 0
    scene.clock.advance(1_000)
    scene.probed = seen(scene, gpu=140)
    status = scene.look()
    assert (status.lag_records["gpu"], status.lag_ms["gpu"], status.shard_lag_records_max) == (40, 1_000, 40)
    assert set(status.lag_records) == {"jobs", "gpu", "network", "storage", "nodes"}


def test_an_answer_to_the_consumer_that_is_newer_is_believed() -> None:
    """A transaction's marker stands at the end of the partition, and no record: only the consumer knows."""
    scene = Scene()
    folded(scene.shard_manager.hold(0), "gpu", 100)
    scene.probed = seen(scene, gpu=101)
    scene.consumer.ends[GPU_0] = LogEnd(100, 100, 1)
    assert scene.look().lag_records["gpu"] == 0


def test_a_shard_that_stands_still_turns_the_worker_red_and_then_green() -> None:
    scene = Scene()
    owned = scene.shard_manager.hold(0)
    scene.probed = seen(scene, gpu=7)
    scene.look()
    scene.wait(60)
    assert scene.failing() == {}
    scene.wait(1)
    assert scene.failing()["progress"].startswith("shard 0 has folded nothing for 61 s")
    assert scene.look().no_progress_ms == 61_000
    folded(owned, "gpu", 1)
    assert scene.failing() == {}
    assert scene.look().no_progress_ms == 0


def test_whoever_holds_it_up_is_named() -> None:
    scene = Scene()
    scene.shard_manager.hold(0)
    scene.probed = seen(scene, gpu=7)
    scene.look()
    scene.wait(61)
    scene.shard_manager.backlog_bytes = 120
    scene.shard_manager.backpressure.update(120)
    assert scene.failing()["progress"].endswith("; reading pauses: 120 of 100 bytes wait for ClickHouse")
    assert scene.look().reading_paused
    scene.probed = ProbeResult(scene.probed.asked_ms, ends=scene.probed.ends, store=False)
    assert scene.failing()["progress"].endswith("; ClickHouse does not answer")
    scene.probed = ProbeResult(scene.probed.asked_ms, ends=scene.probed.ends, kafka=False)
    assert scene.failing()["progress"].endswith("; Kafka at kafka-1:9092 does not answer")


def test_only_a_worker_with_nobody_else_to_blame_is_stuck() -> None:
    scene = Scene()
    scene.shard_manager.hold(0)
    scene.probed = seen(scene, gpu=7)
    away = ProbeResult(scene.probed.asked_ms, ends=scene.probed.ends, store=False)
    here, scene.probed = scene.probed, away
    assert scene.wait(400).stuck == ""
    scene.probed = here
    assert scene.wait(300).stuck == "", "the store is back, and has not been for long"
    assert scene.wait(1).stuck.startswith("shard 0 has folded nothing for 700 s")


def test_a_worker_that_left_the_group_and_does_not_come_back_is_stuck() -> None:
    scene = Scene()
    assert scene.look().stuck == ""
    scene.consumer.member = False
    assert scene.wait(300).stuck == ""
    assert scene.wait(1).stuck == "the group has been left for 301 s although Kafka and ClickHouse answer"


def test_a_worker_that_was_frozen_is_not_stuck_when_it_wakes() -> None:
    scene = Scene()
    scene.shard_manager.hold(0)
    scene.probed = seen(scene, gpu=7)
    scene.look()
    scene.clock.advance(3_600_000)
    scene.consumer.member = False
    assert scene.look().stuck == ""
    assert "progress" not in scene.failing()


def test_prices_and_controls_have_a_lag_and_an_age() -> None:
    scene = Scene()
    assert (scene.look().reference_lag_records, scene.look().price_age_ms) == ({}, None)
    scene.probed = seen(scene, prices=12, controls=4)
    scene.reader.next, scene.reader.newest_ms = {"prices": 10, "controls": 3}, {"prices": NOW_MS - 60_000}
    scene.reader.read_to = {"controls": 4}  # a marker ends it
    status = scene.look()
    assert (status.reference_lag_records, status.price_age_ms) == ({"prices": 2, "controls": 0}, 60_000)


def test_dead_letters_are_counted_by_reason_since_the_process_began() -> None:
    scene = Scene()
    tally = Buried({"future": 100}, {"future": 90})
    scene.shard_manager.hold(0, tallies={"jobs": tally})
    assert (scene.look().dead_letters, scene.look().dead_letters_sampled_out) == ({"future": 0}, 0)
    tally.reasons.update({"future": 105, "too_late": 2})
    tally.stored.update({"future": 94, "too_late": 2})
    status = scene.look()
    assert (status.dead_letters, status.dead_letters_sampled_out) == ({"future": 5, "too_late": 2}, 1)


@dataclass
class Buried:
    reasons: dict[str, int]
    stored: dict[str, int]
    records_in: int = 0


def test_snapshots_age_by_the_oldest_of_the_shards_held() -> None:
    scene = Scene()
    assert scene.look().snapshot_age_ms is None
    scene.shard_manager.hold(0)
    scene.shard_manager.hold(1)
    scene.shard_manager.totals.snapshots_ms = {0: 0, 1: 4_000, 7: -9_000}
    scene.clock.advance(5_000)
    assert scene.look().snapshot_age_ms == 5_000
