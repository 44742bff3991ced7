"""A backfill's shard in a store in memory: killed at every write, met by another process, brought late rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.tables import ATTEMPTS, BOOKS, JOB_HOURS, JOB_MINUTES, JOBS, KEYS, LEDGER_SUMS, NODE_MINUTES
from streams.backfill import shard_meter
from streams.backfill.histories import Owner
from streams.backfill.shard_meter import ShardMeter
from streams.backfill.sorting import TimedEvent
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.errors import TrainfareError
from streams.from_settings import engine
from streams.topics import Topic
from tests.backfill.logs import Line, log_lines, of_jobs
from tests.memory_store import MemoryStore

SHARD = 32_769
NOW_MS = 1_800_000_000_000
TABLES = (JOB_MINUTES, JOB_HOURS, NODE_MINUTES, JOBS, ATTEMPTS, BOOKS, LEDGER_SUMS)
FACTORY = engine(ShardSettings(run_start_ms=NOW_MS))

Tables = dict[str, list[dict[str, Any]]]


class KilledError(BaseException):
    """Nothing catches it."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return log_lines(tmp_path_factory.mktemp("lines"), jobs=6, minutes=4)


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_meter, "_EVENTS_AT_ONCE", 8)
    monkeypatch.setattr(shard_meter, "_EVENTS_PER_CHECKPOINT", 16)


def events_of(lines: list[Line]) -> list[TimedEvent]:
    found = []
    for order, line in enumerate(line for line in lines if line["topic"] != "prices"):
        value = line["value"]
        owner = Owner(value["job_id"]) if "job_id" in value else Owner(value["node"], is_node=True)
        data = json.dumps(value).encode()
        found.append(TimedEvent(value["time_ms"], order, Topic(line["topic"]), owner, data, []))
    return found


def book_of(lines: list[Line]) -> PriceBook:
    decoded = [
        decode("prices", json.dumps(line["value"]).encode(), [], NOW_MS)
        for line in lines
        if line["topic"] == "prices"
    ]
    return PriceBook.empty().with_events(each for each in decoded if isinstance(each, PriceEvent))


def metered(store: MemoryStore, lines: list[Line], now_ms: int = NOW_MS) -> ShardMeter:
    """Run a backfill of all lines to its end."""
    meter = ShardMeter(store, FACTORY, SHARD, book_of(lines), now_ms)
    meter.feed(events_of(lines), lambda _event: False, lambda _by: None)
    meter.finish(lines[-1]["value"]["time_ms"])
    return meter


def tables_of(store: MemoryStore) -> Tables:
    """Current rows without versions; none of quantity 0."""
    found: Tables = {}
    for table in TABLES:
        rows = store.select(table).to_pylist()
        for row in rows:
            row.pop("version")
        kept = [row for row in rows if table not in (JOB_MINUTES, NODE_MINUTES) or row["quantity"]]
        found[table] = sorted(kept, key=lambda row: str([row[name] for name in KEYS[table]]))
    return found


class Dying(MemoryStore):
    """Dies before or behind one of its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.stores_it = False  # the write at which it dies

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                if self.stores_it:
                    super().insert(table, rows, token)
                raise KilledError
        super().insert(table, rows, token)


@pytest.mark.parametrize("stores_it", [False, True])
def test_killed_at_every_write_it_comes_to_the_same_tables(lines: list[Line], *, stores_it: bool) -> None:
    whole = MemoryStore()
    books = metered(whole, lines).books
    want = tables_of(whole)
    assert want[BOOKS]
    for writes in range(1_000):
        store = Dying()
        store.left, store.stores_it = writes, stores_it
        try:
            metered(store, lines)
        except KilledError:
            pass
        else:
            assert writes > 30
            return
        store.left = None
        assert metered(store, lines, NOW_MS + 5_000).books == books, writes
        assert tables_of(store) == want, writes
    pytest.fail("it never ended")


def test_a_second_process_stops_the_first(lines: list[Line]) -> None:
    store = MemoryStore()
    first = ShardMeter(store, FACTORY, SHARD, book_of(lines), NOW_MS)
    metered(store, lines, NOW_MS + 1_000)
    want = tables_of(store)
    with pytest.raises(TrainfareError, match="another process"):
        first.feed(events_of(lines), lambda _event: False, lambda _by: None)
    assert tables_of(store) == want


def test_rows_that_land_late_are_put_right(lines: list[Line]) -> None:
    """A process that was killed had sent an insert, which the server stored after the next one had begun."""
    whole = MemoryStore()
    metered(whole, lines)
    store = Dying()
    store.left = 6
    with pytest.raises(KilledError):
        metered(store, lines)
    store.left = None
    meter = ShardMeter(store, FACTORY, SHARD, book_of(lines), NOW_MS + 5_000)
    wrong = whole.select(JOB_MINUTES).slice(0, 1)
    phase = wrong.schema.get_field_index("phase")
    wrong = wrong.set_column(phase, wrong.schema.field(phase), pa.array(["starting"]))
    version = wrong.schema.get_field_index("version")
    late = pa.array([store.newest_version(JOB_MINUTES) + 1], pa.uint64())
    store.insert(JOB_MINUTES, wrong.set_column(version, wrong.schema.field(version), late), "late")
    meter.feed(events_of(lines), lambda _event: False, lambda _by: None)
    meter.finish(lines[-1]["value"]["time_ms"])
    assert tables_of(store) == tables_of(whole)


def test_what_is_left_out_later_leaves_what_was_begun(lines: list[Line]) -> None:
    events = events_of(lines)
    store = Dying()
    store.left = 20
    with pytest.raises(KilledError):
        metered(store, lines)
    store.left = None
    meter = ShardMeter(store, FACTORY, SHARD, book_of(lines), NOW_MS + 5_000)
    assert meter.has(Owner("job-0"))
    assert not meter.has(Owner("job-99"))
    assert meter.has(Owner("node-job-0", is_node=True))
    assert not meter.has(Owner("job-0", is_node=True))
    meter.feed(events, lambda event: not meter.has(event.owner), lambda _by: None)
    meter.finish(lines[-1]["value"]["time_ms"])
    whole = MemoryStore()
    metered(whole, lines)
    assert tables_of(store) == tables_of(whole)


def test_events_that_are_left_out_leave_no_trace(lines: list[Line]) -> None:
    store = MemoryStore()
    meter = ShardMeter(store, FACTORY, SHARD, book_of(lines), NOW_MS)
    kept = {Owner("job-1"), Owner("job-4")}
    meter.feed(events_of(lines), lambda event: event.owner not in kept, lambda _by: None)
    meter.finish(lines[-1]["value"]["time_ms"])
    only = MemoryStore()
    metered(
        only, [*(line for line in lines if line["topic"] == "prices"), *of_jobs(lines, ["job-1", "job-4"])]
    )
    for table in (JOB_MINUTES, JOB_HOURS, JOBS, ATTEMPTS, LEDGER_SUMS):
        assert tables_of(store)[table] == tables_of(only)[table]
    assert meter.books.records_in == len(of_jobs(lines, ["job-1", "job-4"]))
