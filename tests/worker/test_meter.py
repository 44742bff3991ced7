"""The meter on a broker: where it starts, what it stores in which order, how it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pyarrow as pa
import pytest

from schemas.tables import DEAD_LETTERS
from sinks.errors import SinkBusy
from sinks.port import Store
from streams.engine.batch import LogBatch
from streams.errors import TrainfareError
from streams.notify.notifier import Notifier
from streams.transport.faust_types import TP
from streams.worker.meter import Meter
from streams.worker.shard_manager import ShardManager
from streams.worker.shards.versions import Version
from tests.memory_store import MemoryStore
from tests.worker.fakes import CountingShard, State, file_store
from tests.worker.lab import Lab, folded, run, until


def numbers(first: int, last: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, last)]


def stored(store: Store, shard: int) -> State:
    return msgspec.json.decode(store.snapshots.load(shard).blobs[-1], type=State)


def test_everything_of_the_log_is_metered_stored_and_then_committed(lab: Lab) -> None:
    lab.produce("jobs", 0, numbers(0, 300))
    lab.produce("gpu", 1, numbers(0, 200))
    store = MemoryStore()
    meter = lab.meter(store)

    async def work() -> None:
        await until(lambda: folded(meter, "jobs", 0) == 300 and folded(meter, "gpu", 1) == 200)

    run(meter, work)
    assert stored(store, 0).sum == {"jobs": sum(range(300))}
    assert stored(store, 1).sum == {"gpu": sum(range(200))}
    assert lab.committed("jobs", 0) == 300
    assert lab.committed("gpu", 1) == 200


def test_the_group_says_which_generation_counts(lab: Lab) -> None:
    lab.produce("gpu", 0, numbers(0, 10))
    store = MemoryStore()
    meter = lab.meter(store)
    answers: list[bool] = []

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 10)
        consumer, generation = meter.app.meter_consumer, meter.app.consumer_generation_id
        asked = (generation, generation - 1, generation + 1)
        answers.extend([await asyncio.wait_for(consumer.confirm(each), 10) for each in asked])

    run(meter, work)
    assert answers == [True, False, False]


def test_a_group_made_anew_wins_over_what_its_forerunner_stored(lab: Lab) -> None:
    lab.produce("gpu", 0, numbers(0, 10))
    store = MemoryStore()
    store.snapshots.save(0, Version(3, 700, 9).pack(), 0, msgspec.json.encode(State()))
    meter = lab.meter(store)

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 10)

    run(meter, work)
    assert Version.unpack(store.snapshots.load(0).version).incarnation == 4


def test_reading_starts_at_next_of_the_own_state_not_at_the_commit(lab: Lab) -> None:
    lab.produce("gpu", 0, numbers(0, 100))
    store = MemoryStore()
    first = lab.meter(store)

    async def work() -> None:
        await until(lambda: folded(first, "gpu", 0) == 100)

    run(first, work)
    assert lab.committed("gpu", 0) == 100
    # The store goes back to an older state, as after a zombie's snapshot: the commit is now ahead of it.
    older = MemoryStore()
    older.snapshots.save(0, Version(0, 1, 1).pack(), 0, msgspec.json.encode(State(next={"gpu": 40})))
    second = lab.meter(older)

    async def again() -> None:
        await until(lambda: folded(second, "gpu", 0) == 100)

    run(second, again)
    assert stored(older, 0).sum == {"gpu": sum(range(40, 100))}


def test_records_below_next_are_trimmed(lab: Lab) -> None:
    lab.produce("gpu", 0, numbers(0, 100))
    store = MemoryStore()
    meter = lab.meter(store)

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 100)
        await meter.app.meter_consumer.refetch(TP(f"{lab.kafka.topic_prefix}gpu", 0), 0)
        await until(lambda: _shard(meter, 0).state.trimmed == 100)

    run(meter, work)
    assert stored(store, 0).count == {"gpu": 100}


def test_a_batch_lost_on_the_way_is_fetched_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    take, lost = ShardManager.ingest_batches, list[int]()

    async def forgetful(self: ShardManager, batch: LogBatch) -> None:
        if batch.topic == "gpu" and batch.start >= 50 and not lost:
            lost.append(batch.end - batch.start)
        else:
            await take(self, batch)

    monkeypatch.setattr(ShardManager, "ingest_batches", forgetful)
    store = MemoryStore()
    meter = lab.meter(store)

    async def work() -> None:
        lab.produce("gpu", 0, numbers(0, 50))
        await until(lambda: folded(meter, "gpu", 0) == 50)
        lab.produce("gpu", 0, numbers(50, 60))
        await until(lambda: bool(lost))
        lab.produce("gpu", 0, numbers(60, 100))
        await until(lambda: folded(meter, "gpu", 0) == 100)

    run(meter, work)
    assert lost
    assert stored(store, 0).sum == {"gpu": sum(range(100))}


def test_a_hole_that_stays_stops_the_meter_in_words(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = lab.meter(MemoryStore(), hole_patience_ms=300)
    monkeypatch.setattr(CountingShard, "fold", lambda self, batch: 0 if batch.start else None)
    lab.produce("gpu", 0, numbers(0, 10))

    async def work() -> None:
        while True:
            await asyncio.to_thread(lab.produce, "gpu", 0, numbers(10, 20))
            await asyncio.sleep(0.1)

    async def refuse(*_: object) -> None:
        """The log itself lacks the records: reading again brings nothing."""

    monkeypatch.setattr("streams.transport.consumer.Consumer.refetch", refuse)
    with pytest.raises(TrainfareError, match=r"gpu partition 0 lacks records 0 to"):
        run(meter, work)


def test_nothing_is_committed_before_rows_dead_letters_and_snapshot_are_stored(lab: Lab) -> None:
    lab.produce("gpu", 0, [b"1", b"no number", b"2"])
    order: list[str] = []

    class Journal(MemoryStore):
        def insert(self, table: str, rows: pa.Table, token: str) -> None:
            super().insert(table, rows, token)
            order.append(table)

    class Sink:
        def send(self, rows: pa.Table) -> None:
            order.append("deadletter")
            if order.count("deadletter") == 1:
                raise SinkBusy("not now", 10)

    store = Journal()
    meter = lab.meter(store, Sink())

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 3)
        await until(lambda: "snapshots" in order)

    run(meter, work)
    assert order[:5] == [DEAD_LETTERS, "deadletter", DEAD_LETTERS, "deadletter", "snapshots"]
    rows = store.select(DEAD_LETTERS).to_pylist()
    assert [(row["topic"], row["partition"], row["offset"], row["raw"]) for row in rows] == [
        ("gpu", 0, 1, b"no number")
    ]
    assert lab.committed("gpu", 0) == 3


def test_a_store_that_does_not_answer_pauses_reading_and_loses_nothing(lab: Lab) -> None:
    down = [True]

    class Moody(MemoryStore):
        def insert(self, table: str, rows: pa.Table, token: str) -> None:
            if down:
                raise SinkBusy("not now", 10)
            super().insert(table, rows, token)

    store = Moody()
    meter = lab.meter(store, max_backlog_bytes=4_000)

    async def work() -> None:
        lab.produce("gpu", 0, numbers(0, 50))
        await until(lambda: folded(meter, "gpu", 0) == 50)
        for begin in range(50, 1_000, 50):
            lab.produce("gpu", 0, numbers(begin, begin + 50))
            await asyncio.sleep(0.01)
        await until(lambda: meter.shard_manager.backlog_bytes >= 4_000)
        await asyncio.sleep(0.5)
        assert folded(meter, "gpu", 0) < 1_000
        assert lab.committed("gpu", 0) < 0
        down.clear()
        await until(lambda: folded(meter, "gpu", 0) == 1_000)

    run(meter, work)
    assert stored(store, 0).sum == {"gpu": sum(range(1_000))}


def test_a_fault_in_the_fold_stops_the_meter_and_stores_no_half_changed_state(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.produce("gpu", 0, numbers(0, 10))
    monkeypatch.setattr(CountingShard, "fold", lambda self, batch: 1 // 0)
    store = MemoryStore()

    async def work() -> None:
        await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError):
        run(lab.meter(store), work)
    assert store.snapshots.load(0).blobs == []
    assert lab.committed("gpu", 0) < 0


def test_a_notifier_that_dies_ends_the_meter_with_its_reason_after_a_last_checkpoint(lab: Lab) -> None:
    lab.produce("gpu", 0, numbers(0, 10))
    store = MemoryStore()
    meter = lab.meter(store, checkpoint_interval_ms=3_600_000)

    class Dying:
        stopped = False

        async def run(self) -> None:
            await until(lambda: folded(meter, "gpu", 0) == 10)
            raise ValueError("an odd message")

        async def stop(self) -> None:
            assert store.snapshots.load(0).blobs  # after the last checkpoint, which may bring alerts
            self.stopped = True

    notifier = Dying()
    meter.notifier = cast("Notifier", notifier)
    ended = r"the notifier of alerts ended, so the worker stops: ValueError: an odd message"
    with pytest.raises(TrainfareError, match=ended):
        run(meter, asyncio.Event().wait)  # type: ignore[arg-type]  # whatever it returns
    assert notifier.stopped
    assert stored(store, 0).sum == {"gpu": sum(range(10))}


def test_news_that_cannot_be_taken_end_the_meter(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(self: ShardManager, news: object) -> None:
        raise LookupError("no such price")

    monkeypatch.setattr(ShardManager, "_apply_reference_changes", fails)
    lab.produce("prices", 0, [b"no price"])
    with pytest.raises(LookupError, match="no such price"):
        run(lab.meter(MemoryStore()), asyncio.Event().wait)  # type: ignore[arg-type]  # whatever it returns


def test_the_next_life_of_a_worker_has_higher_versions(lab: Lab, tmp_path: Path) -> None:
    store = file_store(tmp_path)
    seen: list[int] = []
    for life in range(3):
        lab.produce("gpu", 0, numbers(life * 10, life * 10 + 10))
        meter = lab.meter(store)

        async def work(meter: Meter = meter, end: int = life * 10 + 10) -> None:
            await until(lambda: folded(meter, "gpu", 0) == end)
            # Stored before it stops: a worker that was held up for a session stores nothing at its end.
            await until(lambda: store.snapshots.load(0).version not in (0, *seen))

        run(meter, work)
        seen.append(store.snapshots.load(0).version)
    assert sorted(set(seen)) == seen
    assert stored(store, 0).sum == {"gpu": sum(range(30))}


def _shard(meter: Meter, number: int) -> CountingShard:
    shard = meter.shard_manager.owned[number].shard
    assert isinstance(shard, CountingShard)
    return shard
