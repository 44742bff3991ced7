"""One event file through a real Kafka and two worker processes, and through the embedded broker: the same tables."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from sinks.clickhouse import ClickHouseStore
from tests.acceptance.events import AS_OF_MS, write_fleet
from tests.cli.command import ROOT, trainfare
from tests.forked import FORKER, Forked
from tests.kafka.broker import shared_broker
from tests.replay.replay_process import TABLES, current_rows, replay
from tests.store_process import StoreProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PARTITIONS = 4
PATIENCE_S = 90.0


@pytest.fixture
def front(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "shared") as process:
        yield process


def start_worker(env: dict[str, str], log: Path) -> Forked:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}
    environment = {**inherited, "PYTHONPATH": str(ROOT), "TRAINFARE_WEB_PORT": "0", **env}
    return FORKER.start("streams.cli.main:main", "worker", env=environment, cwd=log.parent, out=log, err=log)


def stored(store: ClickHouseStore) -> dict[str, list[dict[str, Any]]]:
    found = {table: current_rows(store.select(table).to_pylist(), table) for table in TABLES}
    as_json: dict[str, list[dict[str, Any]]] = orjson.loads(orjson.dumps(found, default=str))
    return {table: comparable(table, rows) for table, rows in as_json.items()}


def sums(store: ClickHouseStore) -> tuple[int, int]:
    """Rows and quantity of the ledger: a look that costs little, before all rows are compared."""
    sql = "SELECT toUInt64(count()) AS n, toInt64(sum(quantity)) AS q FROM job_minutes FINAL WHERE quantity != 0"
    (found,) = store.query(sql).to_pylist()
    return found["n"], found["q"]


def comparable(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Dead letters without the time of the log: a broker appends later than the file says."""
    if table == "dead_letters":
        for row in rows:
            row.pop("time")
    return sorted(rows, key=str)


def test_two_workers_on_real_kafka_store_what_a_replay_stores(tmp_path: Path, front: StoreProcess) -> None:
    log = write_fleet(tmp_path / "fleet.jsonl", jobs=30)
    embedded = replay([log], tmp_path / "embedded", partitions=PARTITIONS, as_of=AS_OF_MS)
    want = {table: comparable(table, rows) for table, rows in embedded["tables"].items()}
    total = len(want["job_minutes"]), sum(row["quantity"] for row in want["job_minutes"])
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": str(PARTITIONS),
        "TRAINFARE_KAFKA_GROUP_ID": uuid.uuid4().hex,
        "TRAINFARE_KAFKA_SESSION_TIMEOUT_MS": "6000",
        "TRAINFARE_CLICKHOUSE_URL": front.url,
        "TRAINFARE_METER_AS_OF_MS": str(AS_OF_MS),
    }
    assert trainfare("topics", "create", env=env).code == 0
    workers = [start_worker(env, tmp_path / f"worker{number}.log") for number in range(2)]
    store = ClickHouseStore(front.target())
    try:
        published = trainfare("publish", log, env=env)
        assert published.code == 0, published.err
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s and not (sums(store) == total and stored(store) == want):
            assert all(worker.poll() is None for worker in workers), _logs(tmp_path)
            time.sleep(0.2)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(30) for worker in workers] == [0, 0], _logs(tmp_path)
        got = stored(store)
        for table in TABLES:
            assert got[table] == want[table], table
        owners = store.query("SELECT uniqExact(shard) AS n FROM job_minutes")["n"].to_pylist()
        assert owners == [PARTITIONS]
        assert all("shard begins" in (tmp_path / f"worker{n}.log").read_text() for n in range(2))
    finally:
        store.close()
        for worker in workers:
            worker.kill()


def _logs(directory: Path) -> str:
    return "\n".join(path.read_text()[-2000:] for path in sorted(directory.glob("worker*.log")))
