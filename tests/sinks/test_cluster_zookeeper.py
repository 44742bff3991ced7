"""What a real ZooKeeper keeps of a cluster's tables, and what a worker does while there are too few replicas or no ZooKeeper.

chDB never becomes an active replica (it has no port from which others fetch parts), so that no row gets into these tables: what is left to test is
that they are made and found again, that both replicas stand under one path, and that a refused insert is tried again, not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from schemas.tables import KEYS
from sinks.clickhouse import Server
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.migrate import LEDGER, create_database, shipped
from sinks.errors import SinkBusy
from tests.sinks.test_cluster import CONFIG
from tests.store_process import StoreProcess
from tests.zookeeper.server import ZooKeeper, why_not

_NODES = "<zookeeper><node><host>127.0.0.1</host><port>{port}</port></node><session_timeout_ms>3000</session_timeout_ms></zookeeper>"
_KEPT = "SELECT count(), max(zookeeper_exception) FROM system.replicas WHERE database = 'trainfare'"
_COUNT = "SELECT count() FROM meta SETTINGS select_sequential_consistency = 0"
_INSERT = "INSERT INTO meta (key, value, version) VALUES ('k', 'v', 1)"


class Replicas:
    """A ZooKeeper and two engines with the tables of a worker."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        stack.callback(self.zookeeper.kill)
        self.zookeeper.start()
        self.connections: list[ClickHouseConnection] = []
        for name in ("r1", "r2"):
            config = folder / f"{name}.xml"
            text = CONFIG.format(zookeeper=_NODES.format(port=self.zookeeper.port))
            config.write_text(text.replace("<replica>r1<", f"<replica>{name}<"))
            options = ["--config", str(config)]
            process = stack.enter_context(StoreProcess(folder / name, copied=False, options=options))
            target = Server(url=process.url, compress=False, retry_for_s=1.0, cluster="fleet")
            self.connections.append(ClickHouseConnection(target, "trainfare"))
            stack.callback(self.connections[-1].close)

    def make(self, connection: ClickHouseConnection) -> None:
        """Make all tables; a replica that is not active takes no other change."""
        create_database(connection, "trainfare")
        connection.change(LEDGER)
        for migration in shipped():
            for statement in migration.statements():
                if statement.startswith("CREATE"):
                    connection.change(statement)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        yield Replicas(tmp_path_factory.mktemp("replicas"), stack)


def test_two_replicas_stand_under_one_path_of_each_table(replicas: Replicas) -> None:
    first, second = replicas.connections
    replicas.make(first)
    replicas.make(second)
    replicas.make(first)  # a worker that starts again
    sql = (
        "SELECT table, zookeeper_path, replica_name, total_replicas, engine FROM system.replicas"
        " WHERE database = 'trainfare' ORDER BY table"
    )
    for connection, name in ((first, "r1"), (second, "r2")):
        rows = connection.call(lambda client: client.query(sql)).result_rows
        assert {row[0] for row in rows} == {f"{table}_local" for table in (*KEYS, "migrations")}
        assert all(row[1] == f"/clickhouse/tables/01/trainfare/{row[0]}" for row in rows)
        assert {(row[2], row[3]) for row in rows} == {(name, 2)}
        assert {row[4] for row in rows} == {"ReplicatedReplacingMergeTree", "ReplicatedMergeTree"}


def test_an_insert_that_too_few_replicas_would_have_is_refused_and_tried_again(replicas: Replicas) -> None:
    for connection in replicas.connections:
        with pytest.raises(SinkBusy, match=r"replicas|Coordination error"):
            connection.call(lambda client: client.command(_INSERT))
        assert connection.call(lambda client: client.query(_COUNT)).result_rows == [(0,)]


def test_without_zookeeper_inserts_wait_and_the_tables_are_there_when_it_is_back(replicas: Replicas) -> None:
    first = replicas.connections[0]
    replicas.zookeeper.kill()
    with pytest.raises(SinkBusy):
        first.call(lambda client: client.command(_INSERT))
    replicas.zookeeper.start()
    replicas.make(first)
    found = first.call(lambda client: client.query(_KEPT)).result_rows
    assert found == [(len(KEYS) + 1, "")]
