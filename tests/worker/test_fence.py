"""Rows of an earlier owner that land after the takeover are put right, whoever owns the shard by then."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import BOOKS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS, NODE_MINUTES, SCHEMAS
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.options import ShardManagerOptions
from streams.worker.shard_manager import ShardManager
from streams.worker.shards.ports import NoAlertSink
from streams.worker.shards.versions import Version
from tests.memory_store import MemoryStore
from tests.worker.fakes import CountingShard
from tests.worker.test_shard_manager import Bench, Consumer

T0 = 1_704_067_200_000
STARTED = {
    "source": "s", "id": "1", "time_ms": T0, "job_id": "j", "type": "started", "gpu_count": 2,
}  # fmt: skip


class Owner:
    """A worker with the real engine."""

    def __init__(self, store: MemoryStore) -> None:
        self.now_ms = 0
        settings = ShardSettings()
        options = ShardManagerOptions("t.", lambda: T0 + 90_000, lambda: self.now_ms)
        self.shard_manager = ShardManager(
            store, lambda number, book, blobs: Shard.restore(number, settings, book, blobs), Consumer, options
        )

    async def own(self, generation: int) -> None:
        self.shard_manager.assigned({TP(f"t.{topic}", 0) for topic in SHARD_TOPICS}, generation)
        await self.shard_manager.restore_missing()
        assert self.shard_manager.fault is None

    async def store(self) -> None:
        assert await self.shard_manager.store_all(open_attempts=True)

    async def sweep(self) -> None:
        self.now_ms += 90_000
        await self.shard_manager.tick()
        assert self.shard_manager.fault is None


def running(store: MemoryStore) -> pa.Table:
    return store.select(JOB_MINUTES)


def quantities(store: MemoryStore) -> dict[str, int]:
    """Quantity by phase."""
    found: dict[str, int] = {}
    for row in running(store).to_pylist():
        found[row["phase"]] = found.get(row["phase"], 0) + row["quantity"]
    return found


async def first_owner(store: MemoryStore) -> Owner:
    owner = Owner(store)
    await owner.own(1)
    await owner.shard_manager.ingest_batches(
        LogBatch("jobs", 0, 0, 1, [LogRecord(0, T0, json.dumps(STARTED).encode())])
    )
    await owner.store()
    return owner


def land_late(store: MemoryStore, counter: int, generation: int = 1) -> None:
    """A row of a former owner under a key that no replay writes again."""
    row: dict[str, Any] = running(store).to_pylist()[0]
    row |= {"phase": "suspended", "version": Version(0, generation, counter).pack()}
    store.insert(JOB_MINUTES, pa.Table.from_pylist([row], schema=running(store).schema), f"late {counter}")


PAID = {"running": 2 * 1000 * 90_000}
RIGHT = PAID | {"suspended": 0}


def test_the_next_owner_puts_right_what_came_late() -> None:
    async def go() -> None:
        store = MemoryStore()
        await first_owner(store)
        second = Owner(store)
        await second.own(2)
        land_late(store, 2**20)
        assert quantities(store) != RIGHT
        await second.sweep()
        assert quantities(store) == RIGHT

    asyncio.run(go())


@pytest.mark.parametrize("swept", [False, True])
def test_a_takeover_before_the_sweep_does_not_hide_what_came_late(swept: bool) -> None:
    """The row is older than the second owner's snapshot, and the second owner never looked for it."""

    async def go() -> None:
        store = MemoryStore()
        await first_owner(store)
        second = Owner(store)
        await second.own(2)
        await second.store()
        if not swept:
            land_late(store, 2**20)
        third = Owner(store)
        await third.own(3)
        if swept:
            land_late(store, 2**20)
            await third.sweep()
        assert quantities(store) == RIGHT

    asyncio.run(go())


def test_books_that_land_after_a_takeover_do_not_count() -> None:
    """A checkpoint stores them after its rows: these may be there to be taken back, and the books still on their way."""

    async def go() -> None:
        store, former = MemoryStore(), MemoryStore()
        await first_owner(former)
        store.insert(JOB_MINUTES, running(former), "rows of a checkpoint")
        await Owner(store).own(2)
        assert set(quantities(store).values()) == {0}
        store.insert(BOOKS, former.select(BOOKS), "its books")
        (row,) = store.select(BOOKS).to_pylist()
        assert (row["topic"], row["next_offset"], row["records_in"]) == ("jobs", 0, 0)

    asyncio.run(go())


def test_books_of_a_checkpoint_that_lands_as_a_whole_after_a_takeover_do_not_count() -> None:
    """Nothing newer than the snapshot is there to be taken back then."""

    async def go() -> None:
        store, former = MemoryStore(), MemoryStore()
        for each in (store, former):
            owner = await first_owner(each)
            await owner.sweep()
            record = LogRecord(1, T0 + 60_000, json.dumps(STARTED | {"id": "2", "type": "updated"}).encode())
            await owner.shard_manager.ingest_batches(LogBatch("jobs", 0, 1, 2, [record]))
            await owner.store()
        record = LogRecord(2, T0 + 60_000, json.dumps(STARTED | {"id": "3", "type": "updated"}).encode())
        await owner.shard_manager.ingest_batches(LogBatch("jobs", 0, 2, 3, [record]))
        await owner.store()
        await Owner(store).own(2)
        store.insert(BOOKS, former.select(BOOKS), "its books")
        (row,) = store.select(BOOKS).to_pylist()
        assert (row["next_offset"], row["records_in"]) == (2, 2)

    asyncio.run(go())


def test_a_sweep_without_late_rows_merges_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        store = MemoryStore()
        await first_owner(store)
        second = Owner(store)
        await second.own(2)
        await second.sweep()
        await second.store()
        third = Owner(store)
        await third.own(3)
        await third.store()
        read: list[str] = []
        newer = store.readback.newer

        def counted(table: str, shard: int, version: int) -> pa.Table:
            read.append(table)
            return newer(table, shard, version)

        monkeypatch.setattr(store.readback, "newer", counted)
        await third.sweep()
        assert (read, third.shard_manager.owned[0].sweep_due_ms) == ([], None)
        land_late(store, 2**20, generation=2)
        third.shard_manager.owned[0].sweep_due_ms = third.now_ms
        await third.sweep()
        assert (read, quantities(store)) == ([JOB_MINUTES], RIGHT)

    asyncio.run(go())


def test_rows_that_are_right_are_not_written_again() -> None:
    async def go() -> None:
        store = MemoryStore()
        await first_owner(store)
        versions = running(store)["version"].to_pylist()
        second = Owner(store)
        await second.own(2)
        await second.sweep()
        assert running(store)["version"].to_pylist() == versions

    asyncio.run(go())


def test_after_a_sweep_only_what_is_newer_than_the_snapshot_is_looked_at() -> None:
    async def go() -> None:
        store = MemoryStore()
        await first_owner(store)
        second = Owner(store)
        await second.own(2)
        assert second.shard_manager.owned[0].shard.snapshots.unswept_from is not None
        await second.sweep()
        assert second.shard_manager.owned[0].shard.snapshots.unswept_from is None
        end = STARTED | {"id": "2", "type": "completed", "time_ms": T0 + 60_000}
        await second.shard_manager.ingest_batches(
            LogBatch("jobs", 0, 1, 2, [LogRecord(1, T0, json.dumps(end).encode())])
        )
        await second.store()
        third = Owner(store)
        await third.own(3)
        snapshot = store.snapshots.load(0).version
        assert third.shard_manager.owned[0].takeover.known == snapshot
        assert Version.unpack(snapshot).generation == 2

    asyncio.run(go())


def test_rows_of_an_earlier_owner_that_land_late_are_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a hand-over that timed out: the insert was still under way when the shard was restored."""

    def zeroed(_self: object, _table: str, rows: pa.Table, version: int) -> pa.Table:
        for name, value in (("quantity", 0), ("version", version)):
            column = pa.array([value] * rows.num_rows, rows.schema.field(name).type)
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    monkeypatch.setattr(CountingShard, "read_back", zeroed)

    async def go() -> None:
        bench = Bench()
        earlier, own = Version(0, 4, 9).pack(), Version(0, 5, 99).pack()
        await bench.own({0}, 5)
        bench.store.insert(
            NODE_MINUTES, pa.concat_tables([node_row("a", earlier), node_row("b", own)]), "late"
        )
        await bench.shard_manager.tick()
        assert [row["quantity"] for row in bench.store.select(NODE_MINUTES).to_pylist()] == [7, 7]
        bench.now_ms = 90_000
        await bench.shard_manager.tick()
        rows = {
            row["node"]: (row["quantity"], row["version"])
            for row in bench.store.select(NODE_MINUTES).to_pylist()
        }
        assert rows["a"][0] == 0
        assert rows["a"][1] > earlier
        assert rows["b"] == (7, own)

    asyncio.run(go())


def node_row(node: str, version: int) -> pa.Table:
    row = {
        "minute": 0,
        "node": node,
        "sku": "",
        "price_effective": 0,
        "price_usd": 0,
        "quantity": 7,
        "unit": "gpu_milli_ms",
        "cost_usd": 0,
        "shard": 0,
        "version": version,
    }
    return pa.Table.from_pylist([row], schema=SCHEMAS[NODE_MINUTES])


def test_rows_of_an_owner_that_replayed_less_do_not_stand_over_the_newest_snapshot() -> None:
    """It began with an older snapshot, which was all that it saw, and died before it stored one."""
    sample = {
        "source": "s", "node": "n", "job_id": "j", "time_ms": T0 + 10_000, "interval_ms": 10_000,
        "gpus": ["0"], "util_ratio": [1],
    }  # fmt: skip

    async def go() -> None:
        store = MemoryStore()
        first = Owner(store)
        await first.own(1)
        await first.shard_manager.ingest_batches(
            LogBatch("jobs", 0, 0, 1, [LogRecord(0, T0, json.dumps(STARTED).encode())])
        )
        await first.shard_manager.ingest_batches(
            LogBatch("gpu", 0, 0, 1, [LogRecord(0, T0, json.dumps(sample).encode())])
        )
        await first.store()
        right = {table: store.select(table).drop_columns(["version"]) for table in (JOB_USAGE_MINUTES, JOBS)}
        for table, less in ((JOB_USAGE_MINUTES, {"sampled_gpu_s": 1}), (JOBS, {"state": "queued"})):
            rows = store.select(table)
            row = rows.to_pylist()[0] | less | {"version": Version(0, 3, 1).pack()}
            store.insert(table, pa.Table.from_pylist([row], schema=rows.schema), "less")
        last = Owner(store)
        await last.own(5)
        await last.store()
        for table, rows in right.items():
            assert store.select(table).drop_columns(["version"]).equals(rows), table

    asyncio.run(go())


class Resumed(NoAlertSink):
    """Counts how often owed receipts are read."""

    receipts = 0

    def resume_receipts(self) -> None:
        self.receipts += 1


def test_owed_receipts_are_read_again_after_the_sweep_of_their_shard() -> None:
    """A receipt that the former owner stored after the takeover was in no table when they were read before."""

    async def go() -> None:
        owner = Owner(MemoryStore())
        owner.shard_manager.checkpointer.alert_sink = sink = Resumed()
        await owner.own(1)
        owner.now_ms += 60_000
        await owner.shard_manager.tick()
        assert sink.receipts == 0
        await owner.sweep()
        await owner.sweep()
        assert sink.receipts == 1

    asyncio.run(go())


def test_a_sweep_waits_for_the_flight_that_carries_jobs_to_the_archive_and_stays_due() -> None:
    async def go() -> None:
        store = MemoryStore()
        await first_owner(store)
        second = Owner(store)
        await second.own(2)
        land_late(store, 2**20)
        end = STARTED | {"id": "2", "type": "completed", "time_ms": T0 + 90_000}
        await second.shard_manager.ingest_batches(
            LogBatch("jobs", 0, 1, 2, [LogRecord(1, T0, json.dumps(end).encode())])
        )
        store.fail()
        await second.sweep()  # its checkpoint is refused, and waits
        assert quantities(store)["suspended"] != 0
        assert second.shard_manager.owned[0].sweep_due_ms is not None
        await second.sweep()
        assert quantities(store) == RIGHT
        assert second.shard_manager.owned[0].sweep_due_ms is None

    asyncio.run(go())
