"""A restart with very many alerts that fire: read in pages from a server with a server's limits, and deliveries fail alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from schemas.tables import ALERTS, DELIVERIES
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from sinks.rows import Condition, Rows
from streams.engine.alerts.rows import alerts_table
from streams.notify.history import AT_ONCE
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, SHARD, Office, Watched, an_alert, resolved, run
from tests.store_process import StoreProcess
from tests.worker.lab import until

#: Attempts at once: the bounds of what is under way are not what this is about.
MANY = {"in_flight_at_most": 1_000, "in_flight_per_receiver": 1_000}


class Weighed:
    """A store that notes how many rows its largest answer had."""

    def __init__(self, store: Rows) -> None:
        self._store = store
        self.most_rows = 0

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self._store.insert(table, rows, token)

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        found = self._store.select(table, where, columns, limit=limit)
        self.most_rows = max(self.most_rows, found.num_rows)
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with StoreProcess(tmp_path) as front:
        store = ClickHouseStore(front.target())
        yield store
        store.close()


def test_a_restart_with_20_000_alerts_reads_pages_and_tells_each_once(server: ClickHouseStore) -> None:
    alerts = 20_000
    firing = [an_alert(f"job-{number}") for number in range(alerts)]
    server.insert(ALERTS, alerts_table(firing, SHARD, 1), "all")
    told = [an_alert(f"job-{number}") for number in range(0, alerts, 2)]

    async def go() -> None:
        first = Office(store=server, options=MANY)
        for begin in range(0, len(told), 5_000):
            first.notifier.offer(told[begin : begin + 5_000], SHARD)
            await first.work()
        weighed = Weighed(server)
        second = Office(
            store=cast("Rows", weighed), clock=first.clock, options={"waiting_at_most": 1_000} | MANY
        )
        second.notifier.resume([SHARD])
        most_waiting = 0
        while second.notifier.behind:
            await second.work(1_000)
            most_waiting = max(most_waiting, second.most_waiting)
        assert len(second.sender.sent) == alerts - len(told)
        assert {name for name, _ in second.sender.told} == {f"job-{n}" for n in range(1, alerts, 2)}
        assert weighed.most_rows <= AT_ONCE
        assert most_waiting <= 1_000 + AT_ONCE

    run(go())


def refusing(tables: set[str]) -> Watched:
    def look(table: str, columns: Sequence[str] | None) -> None:
        if table in tables:
            raise QueryFailed(f"Not enough privileges on {table}")

    return Watched(look)


@pytest.mark.parametrize(("table", "call"), [(ALERTS, "read_alerts"), (DELIVERIES, "read_deliveries")])
def test_a_table_that_cannot_be_read_ends_nothing_and_is_asked_again(table: str, call: str) -> None:
    async def go() -> None:
        refused = {table}
        office = Office(store=refusing(refused))
        office.keep(an_alert("before the restart"))
        office.notifier.resume([SHARD])
        running = asyncio.create_task(office.notifier.run())
        await until(lambda: bool(office.notifier.faults.counts[call]))
        assert not running.done()
        await office.offer(an_alert("of now"))  # what needs no look into the past is told all the while
        assert office.sender.told == [("of now", "firing")]
        refused.clear()
        await office.work(60_000)
        await office.notifier.stop()
        await running
        assert sorted(office.sender.told) == [("before the restart", "firing"), ("of now", "firing")]

    run(go())


def test_the_rests_grow_to_a_minute_and_begin_anew_after_a_success() -> None:
    async def go() -> None:
        refused = {ALERTS}
        office = Office(store=refusing(refused))
        office.notifier.resume([SHARD])
        await office.work()
        for tries, rest_ms in enumerate((1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000), 1):
            assert office.notifier.faults.counts["read_alerts"] == tries
            await office.work(rest_ms - 1)
            assert office.notifier.faults.counts["read_alerts"] == tries
            await office.work(1)
        refused.clear()
        await office.work(60_000)
        assert not office.notifier.behind
        refused.add(ALERTS)
        office.notifier.resume([SHARD])
        tries = office.notifier.faults.counts["read_alerts"]
        await office.work()
        await office.work(1_000)
        assert office.notifier.faults.counts["read_alerts"] == tries + 2

    run(go())


def test_deliveries_that_cannot_be_stored_end_nothing() -> None:
    async def go() -> None:
        store = MemoryStore()
        office = Office(store=store)
        store.fail(1, table=DELIVERIES, error=QueryFailed("Not enough privileges"))
        office.keep(an_alert())
        office.notifier.offer([an_alert()], SHARD)
        running = asyncio.create_task(office.notifier.run())
        await until(lambda: bool(office.notifier.faults.counts["store_deliveries"]))
        assert not running.done()
        assert office.notifier.rows_waiting == 1
        await office.notifier.stop()
        await running
        assert office.rows("outcome") == [("delivered",)]

    run(go())


def test_what_changes_while_pages_are_read_is_told_too() -> None:
    """A change that finds no room is left in the tables, behind the place that was read up to: they are read anew."""

    async def go() -> None:
        office = Office(options={"waiting_at_most": 4})
        names = [f"job-{number}" for number in range(AT_ONCE + 3)]
        office.keep(*(an_alert(name) for name in names))
        office.notifier.resume([SHARD])
        await office.notifier.run_once()  # the first page has more than there is room for
        later = [resolved(name) for name in names]
        office.keep(*later)
        office.notifier.offer(later, SHARD)
        while office.notifier.behind:
            await office.work(1_000)
        assert {name for name, status in office.sender.told if status == "resolved"} == set(names)

    run(go())


def test_of_what_resolved_only_the_horizon_is_read(server: ClickHouseStore) -> None:
    ended = [resolved(f"job-{number}", number) for number in range(10)]
    server.insert(ALERTS, alerts_table(ended, SHARD, 1), "all")
    office = Office(store=server, options={"resolved_horizon_ms": 1_000})
    office.clock.advance(1_005)
    office.notifier.resume([SHARD])
    run(office.work())
    assert sorted(name for name, _ in office.sender.told) == [f"job-{number}" for number in range(5, 10)]
    assert office.clock.now_ms() == NOW_MS + 1_005
