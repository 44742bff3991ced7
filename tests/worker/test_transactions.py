"""Records that wait behind an open transaction are lag, are said, and are no reason to start the worker anew."""

from __future__ import annotations

from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from streams.worker.health.probe import ProbeResult
from tests.worker.scene import Scene

GPU_0 = TP("trainfare.gpu", 0)


class Held:
    """A shard that has folded all that it may read of `gpu`: up to 100 of 140 records."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.shard = self.scene.shard_manager.hold(0).shard
        self.shard.position.next["gpu"] = 100
        self.at(100, 140)

    def at(self, readable: int, high_watermark: int) -> None:
        self.scene.consumer.ends[GPU_0] = LogEnd(readable, high_watermark, 10**9)

    def pass_by(self, seconds: int) -> None:
        """Ticks go on: nothing is known of the records but that they are there."""
        for _ in range(seconds):
            self.scene.wait(1)
            self.shard.position.tick_ms = self.scene.clock.now_ms()


def test_what_a_transaction_holds_is_lag_and_grows_old() -> None:
    owned = Held()
    status = owned.scene.look()
    assert (status.lag_records["gpu"], status.transaction_records["gpu"]) == (40, 40)
    owned.pass_by(84)
    status = owned.scene.look()
    assert (status.lag_ms["gpu"], status.transaction_ms["gpu"]) == (84_000, 84_000)
    assert status.transaction_records == {"jobs": 0, "gpu": 40, "network": 0, "storage": 0, "nodes": 0}


def test_readiness_names_it_after_a_minute_and_is_well_when_it_ends() -> None:
    owned = Held()
    owned.pass_by(60)
    assert owned.scene.failing() == {}
    owned.pass_by(2)
    assert owned.scene.failing()["transactions"].startswith(
        "40 records of trainfare.gpu/0 are held by an open transaction for 61 s"
    )
    owned.at(141, 141)
    owned.shard.position.next["gpu"] = 141
    owned.pass_by(1)
    assert owned.scene.failing() == {}
    assert owned.scene.look().lag_records["gpu"] == 0


def test_one_transaction_after_another_is_none_that_hangs() -> None:
    owned = Held()
    for number in range(200):
        owned.at(100 + number, 140 + number)
        owned.shard.position.next["gpu"] = 100 + number
        owned.pass_by(1)
    assert owned.scene.failing() == {}
    assert owned.scene.look().transaction_ms["gpu"] <= 1_000


def test_a_worker_that_waits_for_a_producer_is_not_to_be_started_anew() -> None:
    owned = Held()
    for _ in range(400):
        owned.scene.wait(1)  # no tick comes either
    assert owned.scene.failing()["progress"].startswith("shard 0 has folded nothing")
    assert "held by an open transaction" in owned.scene.failing()["progress"]
    assert owned.scene.look().stuck == ""


def test_the_high_watermark_that_our_own_client_saw_counts_while_the_consumer_stands_still() -> None:
    owned = Held()
    owned.at(100, 100)
    owned.scene.consumer.ends[GPU_0] = LogEnd(100, 100, 0)
    owned.scene.wait(10)
    owned.scene.probed = ProbeResult(owned.scene.clock.monotonic_ms(), ends={GPU_0: 150})
    assert owned.scene.look().lag_records["gpu"] == 50
