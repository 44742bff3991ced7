"""A cluster of ClickHouse: a store over tables that are spread by the hash of the job.

The engine of these tests is one process that knows a cluster of itself: it takes statements without ON CLUSTER, and replicated tables
without replication. `test_cluster_statements` has what is asked of others, `test_cluster_zookeeper` what a real ZooKeeper says of the replicated ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import clickhouse_connect
import pyarrow as pa
import pytest

from schemas.tables import JOB_MINUTES, JOBS, SCHEMAS
from sinks.clickhouse import ClickHouseStore, Server
from sinks.clickhouse.check import check_store
from sinks.clickhouse.cluster import CONSISTENT
from sinks.clickhouse.view_files import shipped_views
from sinks.errors import StoreMismatch
from sinks.rows import Condition
from tests.store_process import StoreProcess

CONFIG = """<clickhouse>
  <tcp_port>9000</tcp_port>
  <macros><shard>01</shard><replica>r1</replica></macros>
  {zookeeper}
  <remote_servers><fleet><shard><internal_replication>true</internal_replication>
    <replica><host>127.0.0.1</host><port>9000</port></replica></shard></fleet></remote_servers>
</clickhouse>
"""


def target_of(process: StoreProcess, cluster: str = "fleet", database: str = "trainfare") -> Server:
    return Server(url=process.url, database=database, compress=False, retry_for_s=2.0, cluster=cluster)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    folder = tmp_path_factory.mktemp("cluster")
    config = folder / "config.xml"
    config.write_text(CONFIG.format(zookeeper=""))
    options = ["--config", str(config), "--plain"]
    with StoreProcess(folder / "data", copied=False, options=options) as found:
        yield found


@pytest.fixture(scope="module")
def store(process: StoreProcess) -> Iterator[ClickHouseStore]:
    opened = ClickHouseStore(target_of(process))
    yield opened
    opened.close()


def job(job_id: str, state: str, version: int) -> pa.Table:
    """A row of `jobs`."""
    known = {"job_id": job_id, "state": state, "version": version}
    return pa.Table.from_pylist(
        [{name: _zero(kind) for name, kind in _kinds(JOBS)} | known], schema=SCHEMAS[JOBS]
    )


def _kinds(table: str) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in SCHEMAS[table]]


def _zero(kind: pa.DataType) -> object:
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return []
    if pa.types.is_timestamp(kind):
        return datetime(2026, 11, 1, tzinfo=UTC)
    return "" if pa.types.is_string(kind) or pa.types.is_dictionary(kind) else 0


def test_rows_are_inserted_once_replaced_and_deleted(store: ClickHouseStore) -> None:
    for token, state, version in [("a", "running", 1), ("a", "another", 9), ("b", "completed", 2)]:
        store.insert(JOBS, job("j1", state, version), token)
    store.insert(JOBS, job("j2", "running", 1), "c")
    found = store.select(JOBS, columns=["job_id", "state", "version"]).to_pylist()
    assert [(each["job_id"], each["state"], each["version"]) for each in found] == [
        ("j1", "completed", 2),
        ("j2", "running", 1),
    ]
    assert store.newest_version(JOBS) == 2
    store.delete(JOBS, [Condition("job_id", "=", "j1")])
    assert store.select(JOBS, columns=["job_id"])["job_id"].to_pylist() == ["j2"]


def test_snapshots_and_what_is_known_of_the_store_are_read_back(store: ClickHouseStore) -> None:
    store.snapshots.save(3, 10, 0, b"first")
    store.snapshots.save(3, 20, 10, b"second")
    assert store.snapshots.load(3).blobs == [b"first", b"second"]
    store.meta.put("minutes_kept_from", "202601")
    assert store.meta.get("minutes_kept_from") == "202601"


def test_months_are_dropped(store: ClickHouseStore) -> None:
    rows = [
        {name: _zero(kind) for name, kind in _kinds(JOB_MINUTES)}
        | {"minute": datetime(2026, month, 1, tzinfo=UTC)}
        for month in (9, 10, 11)
    ]
    store.insert(JOB_MINUTES, pa.Table.from_pylist(rows, schema=SCHEMAS[JOB_MINUTES]), "months")
    assert store.drop_months(JOB_MINUTES, 202611) == [202609, 202610]
    assert store.query("SELECT count() AS n FROM job_minutes")["n"].to_pylist() == [1]


def test_every_view_is_answered(store: ClickHouseStore) -> None:
    """Views join spread tables with each other, which a cluster refuses without `distributed_product_mode`."""
    for view in shipped_views():
        store.ask(f"SELECT * FROM `{view.name}` LIMIT 1")


def test_the_settings_of_requests_are_known_to_the_engine(process: StoreProcess) -> None:
    client = clickhouse_connect.get_client(host="127.0.0.1", port=process.port, compress=False)
    names = client.query(
        "SELECT name FROM system.settings WHERE name IN {names:Array(String)}", {"names": [*CONSISTENT]}
    )
    assert {row[0] for row in names.result_rows} == CONSISTENT.keys()
    client.close()


def test_another_start_changes_nothing(process: StoreProcess, store: ClickHouseStore) -> None:
    again = ClickHouseStore(target_of(process))
    again.close()
    found = {each.subject: each for each in check_store(target_of(process))}
    assert found["cluster"].found == "fleet: 1 shard, 1 server"
    assert not found["cluster"].mend
    assert "all" in found["views"].found


def test_tables_of_a_cluster_and_of_one_server_are_not_mixed(
    process: StoreProcess, store: ClickHouseStore
) -> None:
    with pytest.raises(StoreMismatch, match=r"made with clickhouse\.cluster; set it again"):
        ClickHouseStore(target_of(process, cluster=""))
    ClickHouseStore(target_of(process, cluster="", database="alone")).close()
    with pytest.raises(StoreMismatch, match=r"made without clickhouse\.cluster"):
        ClickHouseStore(target_of(process, database="alone"))
    mends = {each.subject: each.mend for each in check_store(target_of(process, database="alone"))}
    assert "meter the log again" in mends["cluster"]


def test_a_cluster_that_the_server_does_not_know_is_said(process: StoreProcess) -> None:
    found = {each.subject: each for each in check_store(target_of(process, cluster="nobody"))}
    assert found["cluster"].found == "the server knows no cluster nobody"
    assert "remote_servers" in found["cluster"].mend
