"""What the shard manager counts for the metrics: assignments, restores, refused commits, holes, rows put right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pyarrow as pa
import pytest

from schemas.tables import NODE_MINUTES
from streams.transport.faust_types import TP
from streams.worker.shards.versions import Version
from tests.worker.fakes import CountingShard
from tests.worker.test_fence import node_row
from tests.worker.test_shard_manager import Bench


def test_assignments_restores_and_snapshots() -> None:
    async def go() -> None:
        bench = Bench()
        bench.now_ms = 5_000
        await bench.own({0, 1}, 1)
        await bench.own({0, 1}, 2)
        totals = bench.shard_manager.totals
        assert (totals.rebalances, totals.restore_ms) == (2, 0)
        assert totals.snapshots_ms == {0: 5_000, 1: 5_000}, "as old as their restore"
        bench.now_ms = 9_000
        await bench.feed(1, 0, 3)
        await bench.shard_manager.tick()
        assert totals.snapshots_ms == {0: 5_000, 1: 9_000}

    asyncio.run(go())


def test_commits_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        bench = Bench()

        async def refuse(_: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
            return False

        await bench.own({0}, 1)
        monkeypatch.setattr(bench.consumer, "commit_next", refuse)
        await bench.feed(0, 0, 3)
        await bench.shard_manager.tick()
        assert bench.shard_manager.totals.commits_refused == 1
        assert bench.shard_manager.totals.checkpoints == 1, "what is stored is stored"

    asyncio.run(go())


def test_holes_that_were_asked_for() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 10, 12)
        assert bench.shard_manager.ingest.refetches == len(bench.consumer.refetches) == 1

    asyncio.run(go())


def test_rows_of_an_earlier_owner_before_the_restore_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_is(_self: object, _table: str, rows: pa.Table, version: int) -> pa.Table:
        column = pa.array([version] * rows.num_rows, pa.uint64())
        return rows.set_column(rows.schema.get_field_index("version"), "version", column)

    monkeypatch.setattr(CountingShard, "read_back", as_is)

    async def go() -> None:
        bench = Bench()
        bench.store.insert(NODE_MINUTES, node_row("before", Version(0, 3, 1).pack()), "before")
        await bench.own({0}, 5)
        assert (bench.shard_manager.totals.rows_phantom, bench.shard_manager.totals.rows_swept) == (1, 0)
        late = [node_row(name, Version(0, 4, at).pack()) for at, name in enumerate(("late", "later"), 1)]
        bench.store.insert(NODE_MINUTES, pa.concat_tables(late), "late")
        bench.now_ms = 90_000
        await bench.shard_manager.tick()
        assert (bench.shard_manager.totals.rows_phantom, bench.shard_manager.totals.rows_swept) == (1, 2)

    asyncio.run(go())
