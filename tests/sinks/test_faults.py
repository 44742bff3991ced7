import gc
import logging
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, ProgrammingError

from schemas.tables import JOB_MINUTES, SNAPSHOTS
from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.absence import Absence
from sinks.clickhouse.faults import as_ours
from sinks.errors import QueryFailed, SinkBusy, SinkError, StoreFull, StoreUnreachable
from tests.logged import events
from tests.memory_store import MemoryStore
from tests.sinks.rows import rows
from tests.sinks.stores import empty, opened
from tests.store_faults import Fault
from tests.store_process import StoreProcess

KINDS: list[Fault] = [
    "unavailable",
    "too_many",
    "broken",
    "unavailable_after",
    "reset_before",
    "reset_after",
    "slow",
    "truncated",
    "wrong",
    "wrong_after",
]
CHUNK = rows(SNAPSHOTS, {"version": 1, "blob": b"\xff" * 100_000})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("server")) as process:
        yield process


@pytest.fixture
def remote(server: StoreProcess) -> Iterator[ClickHouseStore]:
    with opened(server.target(timeout_s=1)) as store:
        empty(store.target)
        yield store


def raw_rows(store: ClickHouseStore, table: str) -> int:
    """Rows as stored, replaced ones included."""
    ((count,),) = store.ask(f"SELECT count() FROM {table}").rows()
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [1, 2])
def test_an_insert_through_a_fault_is_stored_once(
    server: StoreProcess, remote: ClickHouseStore, kind: Fault, times: int
) -> None:
    """`slow` answers after the client has given up: the rows are stored by the request it no longer awaits."""
    server.fault(kind, times, delay_s=1.5 if kind == "slow" else 0)
    remote.insert(SNAPSHOTS, CHUNK, "t")
    time.sleep(0.6 if kind == "slow" else 0)  # until the request given up is through
    assert raw_rows(remote, SNAPSHOTS) == 1
    assert remote.select(SNAPSHOTS).to_pylist() == CHUNK.to_pylist()


@pytest.mark.parametrize("kind", ["unavailable", "too_many", "reset_before", "truncated", "wrong"])
def test_a_query_through_a_fault_is_answered(
    server: StoreProcess, remote: ClickHouseStore, kind: Fault
) -> None:
    remote.insert(JOB_MINUTES, rows(JOB_MINUTES, {}), "t")
    server.fault(kind, 2, on="all")
    assert remote.select(JOB_MINUTES).num_rows == 1


def test_a_fault_that_stays_is_busy_with_a_time_to_wait(server: StoreProcess) -> None:
    with opened(server.target(retry_for_s=0.3)) as store:
        empty(store.target)
        server.fault("unavailable", 50)
        with pytest.raises(
            SinkBusy, match=r"ClickHouse at http://127\.0\.0\.1:\d+ cannot do this now"
        ) as caught:
            store.insert(SNAPSHOTS, CHUNK, "t")
        assert caught.value.retry_after_ms > 0
        server.kill()
        server.start()  # which forgets the faults still to come
        store.insert(SNAPSHOTS, CHUNK, "t")
        assert raw_rows(store, SNAPSHOTS) == 1


def test_every_kind_of_fault_comes_about(server: StoreProcess, remote: ClickHouseStore) -> None:
    for number, kind in enumerate(KINDS):
        before = server.fired().get(kind, 0)
        server.fault(kind)
        remote.insert(SNAPSHOTS, CHUNK, f"fired {number}")
        assert server.fired().get(kind, 0) == before + 1, kind


def test_an_absence_is_said_once_then_now_and_then_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    clock_s = [0.0]
    absence = Absence("the store", lambda: clock_s[0])
    with caplog.at_level(logging.WARNING):
        absence.failed(SinkBusy("the store has never answered: whoever waits for it says so"))
        absence.served()
        for clock_s[0] in (0.0, 0.1, 5.0, 29.0, 30.0, 31.0, 59.0, 60.0, 61.0):
            absence.failed(SinkBusy("the store is away"))
        absence.served()
        absence.served()
        absence.failed(SinkBusy("the store is away"))
    away, back = "store is unavailable, retrying", "store is available again"
    where = {"store": "the store"}
    why = where | {"reason": "the store is away"}
    assert events(caplog.records) == [
        (away, why | {"away_s": 0, "failures": 1}),
        (away, why | {"away_s": 30, "failures": 5}),
        (away, why | {"away_s": 60, "failures": 8}),
        (back, where | {"away_s": 61.0, "failures": 9}),
        (away, why | {"away_s": 0, "failures": 1}),
    ]


def test_an_insert_waits_for_a_server_that_restarts(server: StoreProcess, remote: ClickHouseStore) -> None:
    server.kill()
    restart = threading.Timer(0.5, server.start)
    restart.start()
    remote.insert(SNAPSHOTS, CHUNK, "t")
    restart.join()
    assert raw_rows(remote, SNAPSHOTS) == 1


def test_two_stores_share_a_server(server: StoreProcess, remote: ClickHouseStore) -> None:
    with opened(server.target()) as other:
        other.insert(SNAPSHOTS, CHUNK, "t")
        assert remote.select(SNAPSHOTS).num_rows == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DatabaseError("Code: 252. Too many parts", code=252), SinkBusy),
        (DatabaseError("Code: 241. Memory limit", code=241), SinkBusy),
        (DatabaseError("Code: 243. Cannot reserve 1.00 MiB", code=243), StoreFull),
        (DatabaseError("Code: 75. write: errno: 28, No space left on device", code=75), StoreFull),
        (DatabaseError("HTTP driver received HTTP status 500"), SinkBusy),
        (DatabaseError("HTTP driver received HTTP status 502"), SinkBusy),
        (OperationalError("HTTP driver received HTTP status 503"), SinkBusy),
        (OperationalError("Error executing HTTP request"), StoreUnreachable),
        (DatabaseError("Code: 516. Authentication failed", code=516), SinkError),
        (DatabaseError("Code: 60. Unknown table", code=60), QueryFailed),
        (ProgrammingError("wrong call"), SinkError),
        (DatabaseError(""), SinkError),
    ],
)
def test_what_a_fault_of_the_driver_means(error: DatabaseError, expected: type[SinkError]) -> None:
    mapped = as_ours(error, "the store")
    assert type(mapped) is expected
    assert "the store" in str(mapped)


class TestMemory:
    def test_a_fault_before_stores_nothing_and_the_retry_does(self) -> None:
        store = MemoryStore()
        store.fail(1)
        with pytest.raises(SinkBusy):
            store.insert(SNAPSHOTS, CHUNK, "t")
        assert store.select(SNAPSHOTS).num_rows == 0
        store.insert(SNAPSHOTS, CHUNK, "t")
        assert store.select(SNAPSHOTS).num_rows == 1

    def test_a_fault_after_has_stored_all(self) -> None:
        store = MemoryStore()
        store.fail(1, when="after")
        with pytest.raises(SinkBusy):
            store.insert(SNAPSHOTS, CHUNK, "t")
        assert store.select(SNAPSHOTS).num_rows == 1

    def test_a_fault_may_be_of_one_table(self) -> None:
        store = MemoryStore()
        store.fail(1, table=SNAPSHOTS, error=SinkError("disk full"))
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, {}), "t")
        with pytest.raises(SinkError, match="disk full"):
            store.insert(SNAPSHOTS, CHUNK, "t")

    def test_it_speaks_no_sql(self) -> None:
        with pytest.raises(SinkError, match="no SQL"):
            MemoryStore().query("SELECT 1")


def test_a_request_that_was_given_up_holds_nothing_of_its_callers(server: StoreProcess) -> None:
    """Not even until a collection of cycles: what they hold may be a flight of rows, or a shard."""

    class Flight:
        """What a caller has in hand."""

    def insert(store: ClickHouseStore) -> weakref.ref[Flight]:
        flight = Flight()
        try:
            store.insert(SNAPSHOTS, CHUNK, "given up")
        except SinkBusy:
            return weakref.ref(flight)
        raise AssertionError("the store served")

    with opened(server.target(timeout_s=1, retry_for_s=0.2)) as store:
        server.fault("unavailable", 100)
        gc.disable()
        try:
            held = insert(store)
            assert held() is None
        finally:
            gc.enable()
            server.faultless()
