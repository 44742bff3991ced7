"""Shards without an owner are seen by every worker within half a minute, and asked for again, later each time."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from confluent_kafka import KafkaError, KafkaException

from streams.clock import ManualClock
from streams.config.settings import KafkaSettings
from streams.selfcheck.alerts.owner_alerts import OwnerAlerts
from streams.topics import SHARD_TOPICS, full_name
from streams.worker.health.group_shards import GroupShards, group_shards
from streams.worker.health.ownership import LONGEST_MS, Ownership
from streams.worker.health.probe import EVERY_S, ProbeResult
from streams.worker.log_time import LogTime
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, run
from tests.selfcheck.test_self_alerts import Life, stored
from tests.worker.scene import Scene

ALL = frozenset(range(3))
EVERY_MS = int(EVERY_S * 1000)


def group(*owned: int, rebalances: bool = False) -> GroupShards:
    return GroupShards(ALL - set(owned), frozenset(owned), rebalances)


class Look:
    """An ownership and the instants at which it asked again."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.asked_ms: list[int] = []
        self.ownership = Ownership(lambda: self.asked_ms.append(self.now_ms))

    def see(self, seen: GroupShards | None, times: int = 1) -> Look:
        for _ in range(times):
            self.now_ms += EVERY_MS
            self.ownership.observe(seen, self.now_ms)
        return self


def test_it_is_seen_within_half_a_minute_and_said_by_readiness(caplog: pytest.LogCaptureFixture) -> None:
    look = Look().see(group(0, 1, 2))
    well_ms = look.now_ms
    while look.ownership.check().ok:
        look.see(group(0))
    assert look.now_ms - well_ms <= 30_000
    assert (
        look.ownership.check().detail == "shards 1, 2 have had no owner for 15 s: nothing of them is metered"
    )
    assert look.asked_ms == [look.now_ms]
    (line,) = caplog.records
    assert (line.levelno, line.msg) == (logging.ERROR, "shards have no owner")
    assert line.runbook.startswith("docs/trouble.md#")  # type: ignore[attr-defined]  # of `extra`
    assert look.see(group(0, 1, 2)).ownership.check().ok


def test_a_rebalance_is_no_shard_without_an_owner() -> None:
    look = Look()
    for _ in range(5):
        look.see(group(rebalances=True), LONGEST_MS // EVERY_MS).see(group(0, 1, 2))
        assert look.ownership.check().ok
    assert look.asked_ms == []


def test_one_that_does_not_end_is_said_but_not_begun_anew() -> None:
    look = Look().see(group(rebalances=True), 20)
    assert not look.ownership.check().ok
    assert look.asked_ms == []
    assert look.see(group()).asked_ms == [look.now_ms]


def test_it_asks_again_later_each_time_and_soon_after_all_was_well() -> None:
    look = Look().see(group(0), 60)
    pauses_ms = [after - before for before, after in zip(look.asked_ms, look.asked_ms[1:], strict=False)]
    assert pauses_ms == [10_000, 20_000, 40_000, 80_000, 120_000]
    look.see(group(0, 1, 2)).asked_ms.clear()
    look.see(group(0), 6)
    assert look.asked_ms == [look.now_ms - 10_000, look.now_ms]


def test_brokers_that_do_not_say_change_nothing() -> None:
    look = Look().see(None, 10)
    assert look.ownership.check().ok
    look.see(group(0), 4)
    assert not look.see(None, 10).ownership.check().ok


class Client:
    """Describes a group as it is scripted to."""

    def __init__(self, state: str, *members: dict[str, list[int]], refuses: bool = False) -> None:
        assignments = [ConsumerProtocolMemberAssignment(0, [*each.items()], b"").encode() for each in members]
        self._group = SimpleNamespace(
            id="trainfare",
            state=state,
            members=[SimpleNamespace(assignment=each) for each in (*assignments, b"")],
        )
        self._refuses = refuses

    def list_groups(self, _name: str, *, timeout: float) -> list[Any]:
        assert timeout > 0
        if self._refuses:
            raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE))
        return [SimpleNamespace(id="another", state="PreparingRebalance", members=[]), self._group]


def test_a_shard_is_owned_where_a_member_has_it_of_all_topics() -> None:
    kafka = KafkaSettings(partitions=3, topic_prefix="t.", group_id="trainfare")
    whole = {full_name(topic, "t."): [0, 2] for topic in SHARD_TOPICS}
    part = {full_name(topic, "t."): [1] for topic in SHARD_TOPICS[1:]}
    found = group_shards(Client("Stable", whole, part), kafka, 1.0)  # type: ignore[arg-type]  # all that is called
    assert found == group(0, 2)
    rebalancing = Client("PreparingRebalance", {})
    assert group_shards(rebalancing, kafka, 1.0) == group(rebalances=True)  # type: ignore[arg-type]  # the same
    assert group_shards(Client("Stable", refuses=True), kafka, 1.0) is None  # type: ignore[arg-type]  # the same
    garbled = Client("Stable", whole)
    garbled._group.members[0].assignment = b"\0\1\0\0\0\7no"
    assert group_shards(garbled, kafka, 1.0) is None  # type: ignore[arg-type]  # the same


def test_a_worker_that_owns_nothing_is_not_ready_though_it_is_a_member() -> None:
    scene = Scene()
    scene.probed = ProbeResult(group=group(), group_ms=1_000)
    assert "owners" not in scene.failing()
    scene.probed = ProbeResult(group=group(), group_ms=1_000 + LONGEST_MS)
    assert scene.failing()["owners"].startswith("shards 0, 1, 2 have had no owner for 15 s")
    assert scene.look().shards_unowned == 3


def test_a_worker_that_is_no_member_does_not_judge_the_group_it_has_not_joined() -> None:
    scene = Scene()
    scene.consumer.member = False
    for group_ms in (1_000, 1_000 + LONGEST_MS):
        scene.probed = ProbeResult(group=group(), group_ms=group_ms)
        assert "owners" not in scene.failing()


@pytest.mark.parametrize("owned_meanwhile", [{0}, set()], ids=["one has an owner", "none has"])
def test_it_pages_once_and_the_page_ends_with_it(owned_meanwhile: set[int]) -> None:
    """Where nobody owns a shard nobody can store an alert: whoever owns one next says it."""

    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        life, look = Life(store, clock, shards=2), Look()
        mine = life.owned
        alerts = OwnerAlerts(look.ownership, lambda: life.owned, life.alerts, LogTime(clock))
        for seen in (group(0, 1, 2), *[group(*owned_meanwhile)] * 5, *[group(0, 1, 2)] * 3):
            is_whole = len(seen.owned) == 3
            life.owned = mine if is_whole else {n: mine[n] for n in owned_meanwhile}
            look.see(seen)
            clock.advance(EVERY_MS)
            alerts.run_once()
            await life.step()
        assert life.told == [("shards_unowned", "firing"), ("shards_unowned", "resolved")]
        (row,) = stored(store)
        assert (row["shard"], row["severity"], row["status"]) == (0, "page", "resolved")
        assert "had no owner for" in row["summary"]

    run(scenario())
