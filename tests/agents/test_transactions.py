"""Records that wait behind an open transaction are lag, are said, and are no reason to start the worker anew."""

from __future__ import annotations

from faust.types import TP

from streams.agents.outlook import Sight
from streams.transport.answers import LogEnd
from tests.agents.scene import Scene

GPU_0 = TP("trainfare.gpu", 0)


class Held:
    """A shard that has folded all that it may read of `gpu`: up to 100 of 140 records."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.shard = self.scene.keeper.hold(0).shard
        self.shard.next["gpu"] = 100
        self.at(100, 140)

    def at(self, readable: int, high_watermark: int) -> None:
        self.scene.consumer.ends[GPU_0] = LogEnd(readable, high_watermark, 10**9)

    def pass_by(self, seconds: int) -> None:
        """Ticks go on: nothing is known of the records but that they are there."""
        for _ in range(seconds):
            self.scene.wait(1)
            self.shard.tick_ms = self.scene.clock.now_ms()


def test_what_a_transaction_holds_is_lag_and_grows_old() -> None:
    held = Held()
    status = held.scene.look()
    assert (status.lag_records["gpu"], status.transaction_records["gpu"]) == (40, 40)
    held.pass_by(84)
    status = held.scene.look()
    assert (status.lag_ms["gpu"], status.transaction_ms["gpu"]) == (84_000, 84_000)
    assert status.transaction_records == {"jobs": 0, "gpu": 40, "network": 0, "storage": 0, "nodes": 0}


def test_readiness_names_it_after_a_minute_and_is_well_when_it_ends() -> None:
    held = Held()
    held.pass_by(60)
    assert held.scene.failing() == {}
    held.pass_by(2)
    assert held.scene.failing()["transactions"].startswith(
        "40 records of trainfare.gpu/0 are held by an open transaction for 61 s"
    )
    held.at(141, 141)
    held.shard.next["gpu"] = 141
    held.pass_by(1)
    assert held.scene.failing() == {}
    assert held.scene.look().lag_records["gpu"] == 0


def test_one_transaction_after_another_is_none_that_hangs() -> None:
    held = Held()
    for number in range(200):
        held.at(100 + number, 140 + number)
        held.shard.next["gpu"] = 100 + number
        held.pass_by(1)
    assert held.scene.failing() == {}
    assert held.scene.look().transaction_ms["gpu"] <= 1_000


def test_a_worker_that_waits_for_a_producer_is_not_to_be_started_anew() -> None:
    held = Held()
    for _ in range(400):
        held.scene.wait(1)  # no tick comes either
    assert held.scene.failing()["progress"].startswith("shard 0 has folded nothing")
    assert "held by an open transaction" in held.scene.failing()["progress"]
    assert held.scene.look().stuck == ""


def test_the_high_watermark_that_our_own_client_saw_counts_while_the_consumer_stands_still() -> None:
    held = Held()
    held.at(100, 100)
    held.scene.consumer.ends[GPU_0] = LogEnd(100, 100, 0)
    held.scene.wait(10)
    held.scene.sight = Sight(held.scene.clock.monotonic_ms(), {GPU_0: 150})
    assert held.scene.look().lag_records["gpu"] == 50
