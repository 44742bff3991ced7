"""`trainfare config check --connect`: it asks the real services, and says of each fault what mends it."""

from __future__ import annotations

import json
import socket
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from sinks import directory_lock
from sinks.clickhouse.check import check_store
from sinks.clickhouse.migrate import Migration, shipped
from sinks.clickhouse.view_files import shipped_views
from sinks.target import Embedded
from streams.cli.connect import asked
from streams.config.load import load_settings
from tests.cli.command import NOBODY, Done, trainfare
from tests.kafka.broker import KafkaBroker, shared_broker, why_not
from tests.new_store import begun
from tests.store_process import StoreProcess


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("store")) as process:
        yield process


def rows(done: Done) -> dict[tuple[str, str], list[dict[str, str]]]:
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in json.loads(done.out):
        found.setdefault((row["service"], row["subject"]), []).append(row)
    return found


def check(**env: str) -> Done:
    return trainfare("config", "check", "--connect", "--format", "json", env=env)


@pytest.mark.kafka
def test_where_all_is_well_each_is_said_and_the_code_is_0(store: StoreProcess) -> None:
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "2",
        "TRAINFARE_CLICKHOUSE_URL": store.url,
        "TRAINFARE_CLICKHOUSE_READER_USER": "reader",
    }
    done = check(**env)
    assert done.code == 1, "there are no topics yet"
    (first, *_) = rows(done)["Kafka", "topics"]
    assert "does not exist" in first["found"]
    assert first["to mend"] == "trainfare topics create"
    assert trainfare("topics", "create", env=env).code == 0
    done = check(**env)
    assert (done.code, done.err) == (0, ""), done.out
    found = rows(done)
    assert {key for key in found if key[0] == "Kafka"} == {
        ("Kafka", "answer"),
        ("Kafka", "topics"),
        ("Kafka", "rights"),
    }
    assert {key[1] for key in found if key[0] == "ClickHouse"} == {
        "version",
        "rights",
        "migrations",
        "views",
        "reader",
    }
    assert all(row["result"] == "ok" for each in found.values() for row in each)
    done = check(**{**env, "TRAINFARE_KAFKA_PARTITIONS": "3"})
    assert done.code == 1
    assert "kafka.partitions (now 3)" in rows(done)["Kafka", "topics"][0]["to mend"]


def test_services_that_do_not_answer_are_named_with_what_mends_it() -> None:
    done = check(TRAINFARE_KAFKA_BOOTSTRAP_SERVERS=NOBODY, TRAINFARE_CLICKHOUSE_URL=f"http://{NOBODY}")
    assert (done.code, done.err) == (1, "")
    found = rows(done)
    assert NOBODY in found["Kafka", "answer"][0]["found"]
    assert "kafka.bootstrap_servers" in found["Kafka", "answer"][0]["to mend"]
    assert NOBODY in found["ClickHouse", "answer"][0]["found"]
    assert "clickhouse.url" in found["ClickHouse", "answer"][0]["to mend"]


@pytest.mark.parametrize(
    ("user", "reader", "subject", "said"),
    [
        ("writer", "", "rights", "lacks SELECT, INSERT"),
        ("default", "granter", "reader", "may do more than read"),
    ],
)
def test_rights_that_lack_or_are_too_many(
    store: StoreProcess, user: str, reader: str, subject: str, said: str
) -> None:
    done = check(
        TRAINFARE_KAFKA_BOOTSTRAP_SERVERS=NOBODY,
        TRAINFARE_CLICKHOUSE_URL=store.url,
        TRAINFARE_CLICKHOUSE_USER=user,
        TRAINFARE_CLICKHOUSE_READER_USER=reader,
    )
    (row,) = rows(done)["ClickHouse", subject]
    assert row["result"] == "fault"
    assert said.replace("SELECT, INSERT", "INSERT" if user != "writer" else "ALTER") in row["found"]
    assert "GRANT" in row["to mend"]


def test_migrations_of_other_versions(tmp_path: Path) -> None:
    known = shipped()
    target = Embedded(data_dir=begun(tmp_path / "data"))

    def said(migrations: list[Migration]) -> tuple[str, str]:
        (found,) = [each for each in check_store(target, migrations) if each.subject == "migrations"]
        return found.found, found.mend

    assert said(known) == (f"all {len(known)} are applied", "")
    assert said([*known, Migration("9999_next.sql", "SELECT 1;")])[0].startswith(
        "1 wait (9999_next.sql first)"
    )
    assert "later version" in said(known[:-1])[0]
    text, mend = said([*known[:-1], known[-1]._replace(sql="SELECT 2;")])
    assert "differs" in text
    assert mend
    views = shipped_views()
    changed = views[-1]._replace(select="SELECT 1 AS one")
    for made, said_of_them in (
        (views, f"all {len(views)} are made"),
        ((*views[:-1], changed), f"1 wait ({changed.name} first): a worker makes them at its start"),
    ):
        found = {each.subject: each for each in check_store(target, known, made)}
        assert (found["views"].found, found["views"].mend) == (said_of_them, "")
    assert [each.mend for each in check_store(Embedded(data_dir=tmp_path / "none"))] == [""]
    assert not (tmp_path / "none").exists()


def test_a_store_that_a_worker_has_open_is_no_fault(tmp_path: Path) -> None:
    data = begun(tmp_path / "data")
    env = {"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY, "TRAINFARE_CLICKHOUSE_DATA_DIR": str(data)}
    (row,) = rows(check(**env))["ClickHouse", "migrations"]
    assert row["found"].endswith("are applied")
    directory_lock.acquire(data)
    try:
        (row,) = rows(check(**env))["ClickHouse", "store"]
    finally:
        directory_lock.release(data)
    assert row["result"] == "ok"
    assert "GET /readyz" in row["found"]


def test_a_service_that_takes_connections_and_says_nothing_is_a_fault_in_bounded_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = load_settings(
            {"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": where, "TRAINFARE_CLICKHOUSE_URL": f"http://{where}"}
        )
        answers = asked(settings, service_s=0.5)
    assert [(each.service, each.result) for each in answers] == [("Kafka", "fault"), ("ClickHouse", "fault")]
    assert all("no whole answer within 0.5 s" in each.found for each in answers)


@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_rights_that_brokers_deny_are_named() -> None:
    if why_not() is not None:
        pytest.skip(str(why_not()))
    broker = KafkaBroker(Path(tempfile.mkdtemp(prefix="trainfare-acl-")))
    with broker.properties.open("a") as file:
        file.write("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
        file.write("allow.everyone.if.no.acl.found=true\n")
    broker.start()
    try:
        env = {
            "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "TRAINFARE_KAFKA_PARTITIONS": "1",
            "TRAINFARE_CLICKHOUSE_URL": f"http://{NOBODY}",
        }
        assert trainfare("topics", "create", env=env).code == 0
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        denied = [
            (ResourceType.TOPIC, "trainfare.gpu", AclOperation.READ),
            (ResourceType.TOPIC, "trainfare.deadletter", AclOperation.WRITE),
            (ResourceType.GROUP, "trainfare", AclOperation.READ),
        ]
        for kind, name, operation in denied:
            deny = AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                operation,
                AclPermissionType.DENY,
            )
            allow = AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                "User:*",
                "*",
                AclOperation.ALL,
                AclPermissionType.ALLOW,
            )
            for answer in client.create_acls([deny, allow]).values():
                answer.result()
        found = rows(check(**env))["Kafka", "rights"]
    finally:
        broker.kill()
    assert [row["found"] for row in found] == [
        "READ on topic trainfare.gpu is not allowed",
        "WRITE on topic trainfare.deadletter is not allowed",
        "READ on group trainfare is not allowed",
    ]
    assert all("kafka-acls.sh" in row["to mend"] for row in found)
