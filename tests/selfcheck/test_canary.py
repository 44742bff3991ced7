"""The canary's turns with a log and a store that answer by hand: its price first, one run at a time, nothing lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from schemas.canary_proof import CanaryProof
from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.tables import CANARY
from sinks.errors import SinkBusy
from sinks.port import Store
from streams.clock import ManualClock
from streams.engine.pricing.book import PriceBook
from streams.keys import key_of
from streams.selfcheck.canary import canary as module
from streams.selfcheck.canary.canary import Canary
from streams.selfcheck.canary.client import CanarySender
from streams.selfcheck.canary.judge import CanaryRows
from streams.selfcheck.canary.plan import NETWORK_BYTES, RUN_MS, CanaryOptions, Event
from streams.topics import Topic
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, run
from tests.selfcheck.test_self_alerts import Life, holding

EXACT = CanaryRows("completed", RUN_MS, 1_000, 10, NETWORK_BYTES)
MINUTE_MS = 60_000
PROOF = CanaryProof(b"k" * 32)


class Scene:
    """A canary, what it sent, and what it is to find."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.clock = ManualClock(NOW_MS)
        self.life = Life(self.store, self.clock)
        self.book = PriceBook.empty()
        self.sent: list[Event] = []
        self.answer = ""  # what sending comes to
        self.found: CanaryRows | Exception = EXACT
        self.goes = threading.Event()
        self.goes.set()
        monkeypatch.setattr(module, "fetch_rows", self._look)
        self.canary = Canary(
            CanaryOptions(partitions=2),
            cast("Store", self.store),
            lambda: cast("CanarySender", self),
            lambda: self.life.owned.get(0),
            lambda: self.book,
            self.life.alerts,
            self.clock,
        )

    def send(self, events: Iterable[Event], stopped: Callable[[], bool]) -> str:
        self.goes.wait(10)
        self.sent += events
        return self.answer

    def _look(self, store: Store, job_ids: Sequence[str]) -> dict[str, CanaryRows]:
        if isinstance(self.found, Exception):
            raise self.found
        return dict.fromkeys(job_ids, self.found)

    def take_prices(self) -> None:
        """The book takes what was published."""
        for topic, _, record in self.sent:
            if topic is Topic.PRICES:
                event = decode(topic, PROOF.signed(topic, record), [], NOW_MS + MINUTE_MS, PROOF)
                assert isinstance(event, PriceEvent)
                self.book = self.book.with_events([event])

    async def pass_ms(self, ms: int, *, blocked: bool = False) -> None:
        """So much later: a turn, what it began done with, and a turn that sees it; `blocked`: but for what sending waits for."""
        self.clock.advance(ms)
        for _ in range(3):
            self.canary.run_once()
            sending = None if blocked else self.canary._sending
            tasks = [sending, self.canary._looking, self.canary._writing]
            waiting = [task for task in tasks if task is not None and not task.done()]
            await asyncio.wait(waiting, timeout=5) if waiting else None
        await self.life.step()

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.store.select(CANARY).to_pylist()
        return [(row["outcome"], row["shard"], row["detail"]) for row in found]


async def a_priced(scene: Scene) -> Scene:
    await scene.pass_ms(0)
    scene.take_prices()
    scene.sent.clear()
    return scene


def test_its_price_is_published_first_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        scene = Scene(monkeypatch)
        await scene.pass_ms(0)
        await scene.pass_ms(1_000)
        assert [topic for topic, _, _ in scene.sent] == [Topic.PRICES]
        scene.take_prices()
        await scene.pass_ms(MINUTE_MS)
        assert [topic for topic, _, _ in scene.sent].count(Topic.PRICES) == 1
        assert {topic for topic, _, _ in scene.sent} == {Topic.PRICES, Topic.JOBS, Topic.GPU, Topic.NETWORK}
        assert all(key for _, key, _ in scene.sent)
        assert key_of(Topic.PRICES, b"{}") != scene.sent[0][1]
        assert [row[0] for row in scene.rows()] == ["right"]
        assert scene.life.told == []

    run(scenario())


def test_a_price_that_never_comes_is_a_late_canary_not_an_unpriced_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        scene = Scene(monkeypatch)
        await scene.pass_ms(0)
        await scene.pass_ms(MINUTE_MS)
        await scene.pass_ms(10_001)
        assert {topic for topic, _, _ in scene.sent} == {Topic.PRICES}
        assert len({key for _, key, _ in scene.sent}) == 1, "asked for again, and the same revision"
        assert [row[0] for row in scene.rows()] == ["late"]
        assert "price is not known" in scene.rows()[0][2]
        assert scene.life.told == [("canary_late", "firing")]

    run(scenario())


def test_a_kafka_that_is_away_is_late_and_gets_one_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        scene = await a_priced(Scene(monkeypatch))
        scene.goes.clear()
        await scene.pass_ms(MINUTE_MS, blocked=True)
        await scene.pass_ms(10_001, blocked=True)
        assert scene.life.told == [("canary_late", "firing")]
        await scene.pass_ms(MINUTE_MS, blocked=True)
        await scene.pass_ms(10_001, blocked=True)
        details = [detail for _, _, detail in scene.rows()]
        assert details[0] == "not acknowledged by Kafka within 10 s"
        assert details[1].startswith("not sent: Kafka has not acknowledged an earlier one")
        scene.goes.set()
        await scene.pass_ms(0)
        assert len({event["job_id"] for _, _, event in scene.sent}) == 1
        await scene.pass_ms(MINUTE_MS)
        assert [row[0] for row in scene.rows()] == ["late", "late", "right"]
        assert scene.life.told == [("canary_late", "firing"), ("canary_late", "resolved")]
        counts = scene.canary.seen
        assert counts is not None
        assert (counts.runs, counts.late, counts.wrong) == (3, 2, 0)

    run(scenario())


def test_events_that_are_refused_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        scene = await a_priced(Scene(monkeypatch))
        scene.answer = "trainfare.gpu: Broker: Topic authorization failed"
        await scene.pass_ms(MINUTE_MS)
        await scene.pass_ms(10_001)
        assert [(outcome, detail) for outcome, _, detail in scene.rows()] == [("late", scene.answer)]

    run(scenario())


def test_while_the_store_is_away_a_run_is_late_and_its_row_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(module, "_AGAIN_S", 0.01)
        scene = await a_priced(Scene(monkeypatch))
        scene.found = SinkBusy("away", 10)
        scene.store.fail(6)
        await scene.pass_ms(MINUTE_MS)
        await scene.pass_ms(10_001)
        scene.found = EXACT
        await scene.pass_ms(1_000)
        await scene.life.step()
        assert [row[0] for row in scene.rows()] == ["late"]
        assert "it came after" in scene.rows()[0][2], "the later result stands"
        assert scene.life.told == [("canary_late", "firing")]

    run(scenario())


def test_a_wrong_cost_pages_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        scene = await a_priced(Scene(monkeypatch))
        scene.found = EXACT._replace(cost_nano=1_002)
        await scene.pass_ms(MINUTE_MS)
        await scene.pass_ms(10_000)
        assert scene.life.told == [("canary_wrong", "firing")]
        page = scene.life.office.sender.sent[0].body["data"]
        assert "cost 1002 nano-dollars instead of 1000" in page["summary"]
        assert (page["cost_usd"], page["ratio"]) == ("0.000001002", 1.002)
        scene.found = EXACT
        await scene.pass_ms(50_000)
        assert scene.life.told[1:] == [("canary_wrong", "resolved")]

    run(scenario())


def test_a_new_owner_drops_what_it_did_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        scene = await a_priced(Scene(monkeypatch))
        scene.found = SinkBusy("away", 10)
        await scene.pass_ms(MINUTE_MS)
        scene.life.owned = {}
        await scene.pass_ms(30_000)
        assert scene.canary.seen is None, "another worker's canary is not shown here"
        scene.life.owned = {0: holding(0, 9)}
        await scene.pass_ms(1_000)
        assert scene.life.told == []
        assert scene.rows() == []
        scene.found = EXACT
        await scene.pass_ms(MINUTE_MS)
        assert [row[0] for row in scene.rows()] == ["right"]

    run(scenario())
