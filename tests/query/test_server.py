"""Users' SQL on a server: as a user who may only read, and not at all as one who may do more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Server
from sinks.errors import QueriesOff, QueryFailed, QueryRefused
from sinks.query import QueryLimits, QueryProcess
from sinks.target import query_source
from tests.store_process import StoreProcess


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with StoreProcess(tmp_path_factory.mktemp("server")) as front:
        ClickHouseStore(front.target()).close()
        yield front.url


def asked(
    url: str,
    user: str,
    sql: str,
    parameters: dict[str, str] | None = None,
    limits: QueryLimits = QueryLimits(),  # noqa: B008  # frozen
) -> list[list[object]]:
    source = query_source(Server(url=url, reader_user=user, reader_password="secret"))
    process = QueryProcess(source, limits)
    try:
        answer = process.ask(sql, dict(parameters or {}), "json")
        with os.fdopen(answer.descriptor, "rb") as file:
            file.seek(0)
            rows: list[list[object]] = json.loads(file.read())["rows"]
            return rows
    finally:
        process.close()


@pytest.mark.parametrize("user", ["reader", "reader_of_columns"])
def test_who_may_only_read_is_answered(url: str, user: str) -> None:
    assert asked(url, user, "SELECT count() FROM job_costs") == [[0]]
    assert asked(url, user, "SELECT {a:String} AS a", {"a": "it's\n%(a)s"}) == [["it's\n%(a)s"]]


@pytest.mark.parametrize(
    ("user", "more"),
    [
        ("default", "GRANT"),
        ("writer", "GRANT INSERT ON trainfare.jobs"),
        ("reader_of_all", "GRANT SELECT ON *.*"),
        ("granter", "GRANT SELECT ON trainfare.*"),
        ("nobody", "may not read"),
        ("fixed", "readonly = 2"),
    ],
)
def test_who_may_do_more_or_cannot_be_limited_is_not_asked(url: str, user: str, more: str) -> None:
    with pytest.raises(QueriesOff, match=r"clickhouse\.reader_user") as fault:
        asked(url, user, "SELECT 1")
    assert more in str(fault.value)
    assert "secret" not in str(fault.value)


def test_the_statement_is_judged_before_the_server_sees_it(url: str) -> None:
    for sql in (
        "SELECT * FROM url('http://127.0.0.1:1/')",
        "SELECT * FROM system.tables",
        "SELECT 1 FORMAT CSV",
    ):
        with pytest.raises(QueryRefused):
            asked(url, "reader", sql)


def test_limits_hold_on_a_server(url: str) -> None:
    with pytest.raises(QueryFailed, match=r"TIMEOUT_EXCEEDED|ran longer"):
        asked(
            url,
            "reader",
            "SELECT sum(sipHash64(number)) FROM numbers(3000000000)",
            limits=QueryLimits(time_ms=2_000),
        )


def test_without_a_reading_user_nothing_is_asked(url: str) -> None:
    with pytest.raises(QueriesOff, match=r"clickhouse\.reader_user"):
        query_source(Server(url=url))


def test_the_password_stands_in_no_text(url: str, tmp_path: Path) -> None:
    source = query_source(Server(url=url, reader_user="reader", reader_password="secret"))
    assert "secret" not in repr(source)
