"""The meter's alerts about itself: stored first, told once, gone on with by whoever owns the shard next."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from schemas.tables import ALERTS
from streams.clock import ManualClock
from streams.engine.alerts.meter_rules import BOOKS_UNBALANCED, CANARY_WRONG, MeterFinding
from streams.engine.pricing.book import PriceBook
from streams.selfcheck.alerts.self_alerts import SelfAlerts
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.versions import VersionClock
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import HOOK, NOW_MS, Office, run
from tests.worker.fakes import CountingShard, State, as_shard

ONCALL = "https://oncall.example.com/page"


def holding(number: int, generation: int, newest: int = 0) -> OwnedShard:
    shard = CountingShard(number, PriceBook.empty(), State())
    versions = VersionClock(newest, generation)
    return OwnedShard(number, as_shard(shard), versions, Takeover(0, versions.next()))


class Life:
    """One life of a worker that holds shard 0 (and what else it is given), on a store that outlives it."""

    def __init__(self, store: MemoryStore, clock: ManualClock, generation: int = 1, shards: int = 1) -> None:
        self.clock = clock
        self.member = True
        self.owned = {number: holding(number, generation) for number in range(shards)}
        self.office = Office(store=store, clock=clock, options={"default_webhook": ONCALL})
        self.alerts = SelfAlerts(store, lambda: self.owned, lambda: self.member, self.office.notifier)
        # As the shard manager does it for each shard that it restores.
        self.office.notifier.resume(self.owned)

    async def hear(
        self, holds: bool, *, rule: str = CANARY_WRONG, subject: str = "canary", shard: int = 0
    ) -> bool:
        found = MeterFinding(rule, subject, holds, self.clock.now_ms(), f"{rule} of {subject}", "SELECT 1")
        self.alerts.update(shard, found)
        return await self.step()

    async def step(self) -> bool:
        done = await self.alerts.step()
        await self.office.work()
        return done

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(sent.body["data"]["rule"], sent.body["data"]["status"]) for sent in self.office.sender.sent]


def stored(store: MemoryStore) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.select(ALERTS).to_pylist()
    return rows


def test_a_page_and_its_end_go_to_the_default_webhook_signed() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        life = Life(store, clock)
        await life.hear(False)
        assert stored(store) == []
        await life.hear(True)
        await life.hear(True)
        clock.advance(60_000)
        await life.hear(False)
        assert life.told == [(CANARY_WRONG, "firing"), (CANARY_WRONG, "resolved")]
        first = life.office.sender.sent[0]
        assert first.url == ONCALL != HOOK
        assert first.body["data"]["subject"] == {"kind": "meter", "name": "canary"}
        assert (first.body["data"]["severity"], first.body["data"]["owner"]) == ("page", "")
        assert first.headers["webhook-signature"].startswith("v1,")
        (row,) = stored(store)
        assert (row["status"], row["shard"], row["subject_kind"]) == ("resolved", 0, "meter")

    run(scenario())


def test_a_shard_that_left_is_not_kept_in_memory() -> None:
    async def scenario() -> None:
        life = Life(MemoryStore(), ManualClock(NOW_MS))
        await life.hear(True)
        left = weakref.ref(life.owned[0])
        gc.disable()  # without cycles it goes at once
        try:
            del life.owned[0]
            assert left() is None
        finally:
            gc.enable()

    run(scenario())


def test_what_is_not_stored_is_not_told_and_nothing_of_it_is_lost() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        life = Life(store, clock)
        store.fail(3, table=ALERTS)
        assert not await life.hear(True)
        assert life.told == []
        clock.advance(30_000)
        # It is over before it could be stored: both changes are told, in their order.
        assert not await life.hear(False)
        assert not await life.step()
        assert life.told == []
        assert await life.step()
        assert life.told == [(CANARY_WRONG, "firing"), (CANARY_WRONG, "resolved")]

    run(scenario())


def test_an_insert_that_was_stored_and_not_acknowledged_is_told_once() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        life = Life(store, clock)
        store.fail(1, when="after", table=ALERTS)
        assert not await life.hear(True)
        version = stored(store)[0]["version"]
        assert await life.step()
        assert life.told == [(CANARY_WRONG, "firing")]
        assert stored(store)[0]["version"] == version, "the same row, not another one"

    run(scenario())


def test_the_next_owner_goes_on_with_what_fires_and_tells_nobody_again() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        await Life(store, clock, generation=4).hear(True)
        clock.advance(20_000)
        second = Life(store, clock, generation=5)
        await second.hear(True)
        assert second.told == []
        (row,) = stored(store)
        assert row["firings"] == 1
        # A third life finds it over, and says so once.
        third = Life(store, clock, generation=6)
        await third.hear(False)
        await third.hear(False)
        assert third.told == [(CANARY_WRONG, "resolved")]
        assert stored(store)[0]["alert_id"] == row["alert_id"]

    run(scenario())


def test_what_was_stored_and_not_told_is_told_by_the_next_owner_once() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        first = Life(store, clock)
        first.alerts.update(0, MeterFinding(CANARY_WRONG, "canary", True, clock.now_ms(), "off"))
        assert await first.alerts.step()  # and it dies before its notifier has a turn
        second = Life(store, clock, generation=2)
        await second.hear(True)
        assert second.told == [(CANARY_WRONG, "firing")]

    run(scenario())


def test_the_same_episode_within_ten_minutes_goes_on_across_a_restart() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        first = Life(store, clock)
        await first.hear(True)
        clock.advance(1_000)
        await first.hear(False)
        clock.advance(9 * 60_000)
        second = Life(store, clock, generation=2)
        await second.hear(True)
        (row,) = stored(store)
        assert (row["status"], row["firings"]) == ("firing", 2)
        assert second.told == [(CANARY_WRONG, "firing")]

    run(scenario())


def test_an_owner_that_was_overtaken_is_neither_stored_nor_told() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        zombie = Life(store, clock, generation=3)
        zombie.member = False  # it slept past its session, and does not know yet
        assert not await zombie.hear(True)
        assert (stored(store), zombie.told) == ([], [])
        # Even one that got through before would have the lower version.
        await Life(store, clock, generation=4).hear(True)
        version = stored(store)[0]["version"]
        assert version > zombie.owned[0].versions.next()
        # The rebalance reaches it: the shard is held anew or not at all, and what waited is dropped.
        zombie.member, zombie.owned = True, {}
        assert await zombie.step()
        assert zombie.told == []

    run(scenario())


@pytest.mark.parametrize("held_again", [False, True])
def test_a_shard_that_leaves_takes_what_waits_with_it(held_again: bool) -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        life = Life(store, clock)
        store.fail(1, table=ALERTS)
        await life.hear(True)
        life.owned = {0: holding(0, 2)} if held_again else {}
        assert await life.step()
        assert stored(store) == []

    run(scenario())


def test_books_of_two_shards_are_two_alerts_of_their_own_shards() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        life = Life(store, clock, shards=3)
        for shard in (1, 2):
            await life.hear(True, rule=BOOKS_UNBALANCED, subject=f"books of shard {shard}", shard=shard)
        await life.hear(True, rule=BOOKS_UNBALANCED, subject="books of shard 7", shard=7)  # not ours
        await life.hear(False, rule=BOOKS_UNBALANCED, subject="books of shard 1", shard=1)
        rows = sorted((row["shard"], row["subject_name"], row["status"]) for row in stored(store))
        assert rows == [(1, "books of shard 1", "resolved"), (2, "books of shard 2", "firing")]

    run(scenario())
