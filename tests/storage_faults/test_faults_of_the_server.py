"""A worker whose ClickHouse is late, refuses, breaks off, lies and goes away: it says so, waits, and the tables are exact."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage_faults.rig import PATIENCE_S, Rig, free_port, rig
from tests.store_faults import Fault
from tests.store_process import StoreProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

MIB = 2**20
EVENTS = 200
TIMES = 2
MANY_EVENTS = 8_000
# A fetch brings up to 1 MiB of each topic of a shard, and one is under way when reading pauses.
ONE_FETCH_BYTES = 5 * MIB
INSERTS: list[Fault] = [
    "unavailable",
    "too_many",
    "broken",
    "reset_before",
    "reset_after",
    "unavailable_after",
    "truncated",
    "wrong",
    "wrong_after",
]
SAID = ("reading pauses", "reading goes on", "store is available again")
QUERIES: list[Fault] = ["unavailable", "reset_before", "truncated", "wrong"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def front(directory: Path) -> Iterator[StoreProcess]:
    process = StoreProcess(directory / "store")
    process.port = free_port()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def lone(directory: Path, front: StoreProcess) -> Iterator[Rig]:
    """One worker, which comes before its store."""
    env = {"TRAINFARE_METER_MAX_BACKLOG_BYTES": str(MIB), "TRAINFARE_METER_CHECKPOINT_INTERVAL_MS": "200"}
    with rig(directory, front.url, jobs=40, seconds=600, **env) as made:
        worker = made.workers.start()
        worker.wait_until("does not answer", PATIENCE_S)
        front.start()
        worker.wait_ready(PATIENCE_S)
        made.publish(EVENTS)
        made.wait_metered()  # one that is still restoring its shards would wait for a store that is away, and read nothing
        yield made
        assert made.workers.ended_by_themselves() == []
        assert worker.terminate() == 0
        assert "Traceback" not in worker.text()


def test_every_fault_of_a_request_in_turn(lone: Rig, front: StoreProcess) -> None:
    def with_fault(kind: Fault, times: int, on: str = "insert", delay_s: float = 0.0) -> None:
        fired = front.fired().get(kind, 0)
        front.fault(kind, times, on=on, delay_s=delay_s)
        lone.publish(EVENTS)
        deadline_s = time.monotonic() + 60
        while front.fired().get(kind, 0) < fired + times:
            assert time.monotonic() < deadline_s, (kind, front.fired())
            time.sleep(0.05)

    for kind in INSERTS:
        with_fault(kind, TIMES)
    for kind in QUERIES:
        with_fault(kind, TIMES, on="all")
    with_fault("slow", TIMES, delay_s=1.5)
    lone.assert_exact(front.target())


def test_a_store_that_is_away_stops_the_reading_and_loses_nothing(lone: Rig, front: StoreProcess) -> None:
    (worker,) = lone.workers.lives
    before, said = lone.metrics(), {words: worker.count(words) for words in SAID}
    front.kill()
    lone.publish_heavy(MANY_EVENTS)
    found = lone.wait_paused()
    assert MIB <= found["trainfare_backlog_bytes"] < MIB + ONE_FETCH_BYTES
    assert found["trainfare_records_total"] < lone.sent, "it has read everything: the pause was not needed"
    assert lone.behind() > 0
    grown_bytes = found["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
    assert grown_bytes < 100 * MIB
    front.start()
    lone.wait_reading()
    lone.assert_exact(front.target())
    assert all(worker.count(words) > said[words] for words in SAID)
    about = [line for line in worker.text().splitlines() if front.url in line]
    assert len(about) < 40, "the log is flooded"
    assert "urllib3" not in worker.text()
