"""POST /api/v1/query: only reading, within bounds, and no value loses its type on the way."""

from __future__ import annotations

import io
import math
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from sinks.query import arrow, msgpack
from streams.cli.output import Grid, OutputFormat, to_json, write
from streams.cli.remote import RemoteReader
from streams.config.settings import QuerySettings
from tests.web.log import COST_A
from tests.web.serving import LOCAL_TOKEN, Client, served

BEARER = {"Authorization": f"Bearer {LOCAL_TOKEN}"}

COST_OF_A = {
    "sql": "SELECT job_id, cost_usd FROM job_costs WHERE job_id = {job:String}",
    "parameters": {"job": "a"},
}


ENCODERS: dict[ModuleType, Any] = {arrow: arrow.Encoder, msgpack: msgpack.MessagePackEncoder}
FORMS = pytest.mark.parametrize("form", [arrow, msgpack], ids=["arrow", "msgpack"])


def through(form: ModuleType, answer: QueryResult, block_rows: int = 1) -> QueryResult:
    encoder = ENCODERS[form](answer.names, answer.types)
    for begin in range(0, len(answer.columns[0]) if answer.columns else 0, block_rows):
        encoder.add([column[begin : begin + block_rows] for column in answer.columns])
    out = io.BytesIO()
    encoder.write(out)
    found: QueryResult = form.decode(out.getvalue())
    return found


def asked(store: ClickHouseStore, body: object, status: int = 200, **options: Any) -> Any:
    query = options.pop("query", None)

    async def work(client: Client) -> Any:
        return await client.ask(body, status, **options)

    return served(store, work, query=query)


def test_rows_as_json(store: ClickHouseStore) -> None:
    assert asked(store, COST_OF_A) == {
        "columns": ["job_id", "cost_usd"],
        "types": ["String", "Decimal(38, 9)"],
        "rows": [["a", COST_A]],
    }


def test_what_json_has_no_number_for(store: ClickHouseStore) -> None:
    sql = """SELECT 9007199254740993 AS large, 1 / 0 AS endless, toDateTime64('2026-03-01 12:00:00.5', 3, 'UTC') AS at,
             map('a', toDecimal64(1, 2)) AS nested, toDate('2026-03-01') AS day, NULL AS nothing; """
    assert asked(store, {"sql": sql})["rows"] == [
        ["9007199254740993", None, 1_772_366_400_500, {"a": "1.00"}, "2026-03-01", None]
    ]


#: A body, and the status, the code and the words of its refusal.
REFUSED: list[tuple[object, int, str, str]] = [
    ({"sql": "DROP TABLE jobs"}, 400, "query_refused", "only reading is allowed"),
    (
        {"sql": "SELECT * FROM file('/etc/passwd')"},
        400,
        "query_refused",
        "the table function `file` is not allowed",
    ),
    ({"sql": "SELECT 1; SELECT 2"}, 400, "query_refused", "one statement at a time"),
    ({"sql": "SELECT nothing FROM job_costs"}, 400, "query_failed", "UNKNOWN_IDENTIFIER"),
    ({"sql": "SELECT {x:Int64}"}, 400, "query_failed", "the parameter x has no value"),
    ({"sql": "SELECT {x:UInt8}"}, 400, "query_refused", "{x:UInt8}"),
    ({"sql": "SELECT 1", "parameters": {"x": 1}}, 400, "query_refused", "no parameter {x:Type}"),
    ({"query": "SELECT 1"}, 400, "bad_request", "sql"),
    ({"sql": "SELECT 1", "parameters": {"x": {}}}, 400, "bad_request", "parameters"),
    ([], 400, "bad_request", "expected"),
    ({"sql": "SELECT " + "1" * 2**20}, 413, "too_large", "262144 bytes"),
    ({"sql": "SELECT 1" + " " * 2**14}, 413, "query_too_large", "16384 bytes"),
]


def test_refusals_in_one_line(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for body, status, code, said in REFUSED:
            error = (await client.ask(body, status))["error"]
            assert error["code"] == code, body
            assert said in error["message"], body
            assert "\n" not in error["message"], body

    served(store, work)


def test_a_syntax_error_says_where_it_is(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        first = (await client.ask({"sql": "SELEC 1"}, 400))["error"]
        assert first == {
            "code": "query_failed",
            "message": "the SQL has a syntax error at column 7",
            "line": 1,
            "column": 7,
        }
        later = (await client.ask({"sql": "SELECT 'ä'\nFORM jobs"}, 400))["error"]
        assert (later["line"], later["column"]) == (2, 6)
        assert later["message"].startswith("the SQL has a syntax error at line 2, column 6")

    served(store, work)


def test_what_was_read_is_told_beside_the_answer(store: ClickHouseStore) -> None:
    """By headers: the form of the answer is the same as ever."""

    async def work(client: Client) -> list[tuple[str | None, str | None]]:
        found = []
        for sql in (
            "SELECT max(owner) FROM jobs",
            "SELECT number FROM numbers(70000)",
            "SELECT number FROM numbers(70000) WHERE sipHash64(number) = 1",
        ):
            url = f"{client.server.url}/api/v1/query"
            async with client.session.post(url, json={"sql": sql}, headers=BEARER) as answer:
                assert answer.status == 200
                found.append((answer.headers.get("X-Rows-Read"), answer.headers.get("X-Bytes-Read")))
        return found

    jobs, numbers, nothing = served(store, work)
    assert jobs[0] is not None
    assert jobs[1] is not None
    assert 5 <= int(jobs[0]) < int(jobs[1])
    assert numbers == ("70000", "560000")
    assert nothing[0] == "70001", "of an answer without a row the columns are asked for apart"


def test_other_content_types_are_refused(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        url = f"{client.server.url}/api/v1/query"
        async with client.session.post(
            url, data=b'{"sql": "SELECT 1"}', headers=BEARER | {"Content-Type": "text/plain"}
        ) as answer:
            assert answer.status == 415

    served(store, work)


def test_what_exceeds_a_limit_fails_and_says_which(store: ClickHouseStore) -> None:
    short = QuerySettings(max_execution_time_ms=1_000)
    small = QuerySettings(max_memory_bytes=64 * 2**20)
    endless = "SELECT sum(sipHash64(number)) FROM numbers(3000000000)"
    large = "SELECT number, toString(number) FROM numbers(1000001)"
    greedy = "SELECT length(groupArray(repeat('x', 1000))) FROM numbers(10000000)"
    wide = "SELECT repeat('x', 1000) FROM numbers(100000)"
    folded = "SELECT " + ", ".join(
        f"arrayCount(x -> sipHash64(x, {n}) % 7 = 3, range(5000000))" for n in range(60)
    )
    for limits, sql, said in (
        (short, endless, "TIMEOUT_EXCEEDED"),
        (short, f"EXPLAIN SELECT ({endless})", "TIMEOUT_EXCEEDED"),
        (short, folded, "ran longer than 1 s"),
        (small, large, "rows"),
        (small, greedy, "64 MiB of memory"),
        (small, wide, "64 MiB"),
    ):
        status, code = (504, "query_timed_out") if limits is short else (400, "query_failed")
        error = asked(store, {"sql": sql}, status, query=limits)["error"]
        assert error["code"] == code
        assert said in error["message"], sql


def test_settings_of_a_query_are_of_a_list_and_leave_with_it(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        sql = "SELECT count() FROM numbers(10) SETTINGS max_result_rows = 1"
        assert (await client.ask({"sql": sql}))["rows"] == [[10]]
        assert len((await client.ask({"sql": "SELECT number FROM numbers(3)"}))["rows"]) == 3
        error = (await client.ask({"sql": "SELECT 1 SETTINGS limit = 1"}, 400))["error"]
        assert error["code"] == "query_refused"
        assert "the setting `limit` is not allowed" in error["message"]

    served(store, work)


TYPES = """
SELECT toDecimal64('0.500000000', 9) AS money, toDecimal256('12.5', 3) AS wide_money, toInt128('170141183460469231731687303715884105727') AS wide,
       toUInt64(18446744073709551615) AS most, -5 AS small, 1.5 AS real, nan AS none, true AS yes, 'ünï' AS text,
       toFixedString('ab', 4) AS fixed, toDateTime('2026-03-01 12:00:00', 'UTC') AS at, toDateTime64('2026-03-01 12:00:00.123', 3, 'UTC') AS at_ms,
       toDateTime('2026-03-01 12:00:00', 'Europe/Berlin') AS there, toDate('2026-03-01') AS day, CAST('a' AS Enum8('a' = 1)) AS chosen,
       toLowCardinality('low') AS low, map('k', 'v') AS labels, map('k', toDecimal64(1, 9)) AS costs, [1, 2] AS list,
       [toDateTime64('2026-03-01 12:00:00.5', 3, 'UTC')] AS instants, (1, 'x') AS pair, CAST((1, 2) AS Tuple(a UInt8, b UInt8)) AS named,
       toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS id, toIPv4('1.2.3.4') AS ip, NULL AS nothing, toNullable(3) AS some,
       CAST(NULL AS Nullable(Decimal(18, 9))) AS no_money, unhex('ff00') AS raw
"""


@FORMS
def test_every_type_comes_through_as_it_was(
    form: ModuleType, store: ClickHouseStore, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = store.ask(TYPES)
    again = through(form, answer)
    assert (again.names, again.types) == (answer.names, answer.types)
    for name, before, after in zip(answer.names, answer.columns, again.columns, strict=True):
        if name == "none":
            assert math.isnan(next(iter(after)))  # type: ignore[arg-type]  # a float column
        elif name not in ("costs", "instants"):
            assert list(after) == list(before), name
            assert [type(value) for value in after] == [type(value) for value in before], name
    # What a command prints of both is the same, to the last digit.
    printed = []
    for each in (answer, again):
        kept = [
            at
            for at, name in enumerate(each.names)
            if name not in ("costs", "instants", "wide", "wide_money")
        ]
        rows = [[row[at] for at in kept] for row in each.rows()]
        for shown in (OutputFormat.csv, OutputFormat.table):
            write(Grid(tuple(each.names[at] for at in kept), rows), shown)
        at_json = [at for at, name in enumerate(each.names) if name != "wide"]
        print(to_json([[row[at] for at in at_json] for row in each.rows()]))  # noqa: T201  # both are captured and compared
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    money = again.columns[0]
    assert str(next(iter(money))) == "0.500000000"
    assert isinstance(next(iter(money)), Decimal)


@FORMS
def test_no_rows_and_no_columns_come_through(form: ModuleType, store: ClickHouseStore) -> None:
    nothing = store.ask("SELECT job_id, cost_usd FROM job_costs WHERE job_id = 'nobody'")
    again = through(form, nothing)
    assert (again.names, list(again.rows())) == (("job_id", "cost_usd"), [])
    assert through(form, QueryResult((), (), ())).names == ()
    with pytest.raises((pa.ArrowException, ValueError)):
        form.decode(b"no stream")


@FORMS
def test_a_typed_form_where_it_is_asked_for(form: ModuleType, store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        headers = BEARER | {"Accept": form.MEDIA_TYPE}
        async with client.session.post(
            f"{client.server.url}/api/v1/query", json=COST_OF_A, headers=headers
        ) as answer:
            assert answer.content_type == form.MEDIA_TYPE
            assert list(form.decode(await answer.read()).rows()) == [("a", Decimal(COST_A))]

    served(store, work)


@FORMS
def test_a_command_understands_workers_of_earlier_versions(
    form: ModuleType, store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = store.ask("SELECT job_id, cost_usd FROM job_costs ORDER BY job_id")
    sent = io.BytesIO()
    encoder = ENCODERS[form](answer.names, answer.types)
    encoder.add(answer.columns)
    encoder.write(sent)
    monkeypatch.setattr(RemoteReader, "_answer", lambda *_given: sent.getvalue())
    found = RemoteReader("http://127.0.0.1:1", None).ask("SELECT 1", {})
    assert list(found.rows()) == list(answer.rows())
