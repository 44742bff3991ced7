"""Hostile statements and requests about values: errors, formats, names of teams that look like another, streams, caches and labels."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, Final
from urllib.parse import quote

import pytest

from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from sinks.query import process
from tests.web.marked_store import MARKER, NUMBER, OTHER, OTHER_ALERT, OTHER_JOB, OWN, OWN_JOB, token_of
from tests.web.serving import Client, served
from tests.web.test_rows_by_team import BOUND, RECORD, marked

__all__ = ["marked"]

#: A text column of a table that has one row of each team.
COLUMNS: Final = (("jobs", "team"), ("jobs", "owner"), ("job_minutes", "node"), ("alerts", "subject_name"), ("attempts", "job_id"))  # fmt: skip
#: Functions whose errors could carry a value, or which take a text of a row for an instruction.
VALUES: Final = (
    "toUUID({})", "toDate({})", "toDateTime64({}, 3)", "parseDateTime({}, '%Y')", "parseDateTimeBestEffort({})",
    "toIPv4({})", "toIPv6({})", "toDecimal64({}, 9)", "toUInt8({})", "accurateCast({}, 'UInt8')", "CAST({} AS Enum8('a' = 1))",
    "CAST({} AS Date)", "CAST({} AS Array(UInt8))", "CAST({} AS Tuple(UInt8))", "CAST({} AS Map(String, UInt8))",
    "CAST({} AS JSON)", "match('x', {})", "extractAll('x', {})", "replaceRegexpAll('x', {}, '')", "multiMatchAny('x', [{}])",
    "toTimeZone(now(), {})", "dateTrunc({}, now())", "formatDateTime(now(), {})", "throwIf(1, {})", "throwIf({} != '', 'x')",
    "tupleElement(tuple(1), {})", "JSONExtract({}, 'UInt8')", "JSONExtractRaw({}, 1)", "JSON_VALUE({}, '$.a')",
    "simpleJSONExtractInt({}, 'a')", "base64Decode({})", "unhex({})", "format({}, 1)", "printf({}, 1)", "repeat({}, 100000000)",
    "leftPad({}, 100000000)", "arrayElement([1], length({}) - 2000000000)", "range(length({}) * 1000000000)", "substring({}, 0)",
    "aes_decrypt_mysql('aes-128-ecb', {}, 'k')", "fromUnixTimestamp(toInt64({}))", "bitTest(1, length({}) + 100)",
    "reinterpretAsInt64({})", "toFixedString({}, 1)", "parseReadableSize({})", "parseTimeDelta({})", "toInt256({})",
    "dictGet({}, 'a', 1)", "encodeURLComponent({})", "sqid({})", "stringJaccardIndexUTF8({}, '\\xff')", "URLHierarchy({})",
    "CAST((SELECT groupArray({}) FROM {table}) AS Array(UInt8))", "toUInt8((SELECT max({}) FROM {table}))",
)  # fmt: skip
#: Of whole statements.
WHOLE: Final = (
    *(f"SELECT {column} FROM {table} WHERE {column} {how}"
      for table, column in COLUMNS[:3]
      for how in (
          "LIKE 'zqx%'", "ILIKE 'ZQX%'", "NOT LIKE 'own%'", "LIKE '%\u0131%' OR 1", "LIKE '\u202e%' OR 1 = 1", "REGEXP '^z'",
          "IN (" + ", ".join(f"'{OTHER}{n}'" for n in range(600)) + ")", "NOT IN ('x')", f">= '{MARKER}'", "BETWEEN 'z' AND 'zz'",
          f"= concat('{MARKER[:4]}', '{OTHER[4:]}')", "!= '' ORDER BY 1 COLLATE 'tr'", "GLOBAL IN (SELECT team FROM jobs)",
          f"IS NOT DISTINCT FROM '{OTHER}'", "= ANY (SELECT team FROM jobs)", "<= ALL (SELECT owner FROM jobs)",
      )),
    *(f"SELECT * FROM {table} AS t {join}"
      for table in ("jobs", "job_minutes")
      for join in (
          "JOIN system.tables AS s ON 1", "CROSS JOIN system.parts", "LEFT JOIN system.columns AS c ON c.table = 'jobs'",
          "FULL JOIN numbers(2) AS n ON n.number = t.version", "PASTE JOIN (SELECT * FROM jobs) AS p",
          "LEFT JOIN (SELECT job_id AS j, count() AS n FROM job_minutes GROUP BY j) AS m ON m.j = t.job_id SETTINGS join_use_nulls = 1",
          "JOIN system.dictionaries AS d ON d.name = t.job_id", "ASOF JOIN alerts AS a ON a.team = t.job_id AND a.version >= t.version",
      )),
    *(f"SELECT * FROM jobs {end}"
      for end in (
          "FORMAT CSV", "FORMAT JSONEachRow", "FORMAT PrettyCompact", "FORMAT Template SETTINGS format_template_row = '/etc/passwd'",
          "SETTINGS format_csv_delimiter = ','", "SETTINGS output_format_json_quote_64bit_integers = 1",
          "SETTINGS log_comment = 'x'", "SETTINGS send_logs_level = 'trace'", "SETTINGS final = 0", "SETTINGS max_threads = 1",
          "SETTINGS transform_null_in = 1, group_by_use_nulls = 1", "SETTINGS limit = 9, offset = 0", "SETTINGS extremes = 1",
          "SETTINGS totals_mode = 'before_having'", "SETTINGS exact_rows_before_limit = 1", "LIMIT -1", "LIMIT 0 WITH TIES",
          "OFFSET 1 ROW FETCH FIRST 1 ROW ONLY", "WINDOW w AS (ORDER BY team)", "INTO OUTFILE 'x' TRUNCATE",
      )),
    "SELECT count() FROM jobs", "SELECT count() FROM (SELECT * FROM jobs LIMIT 100)", "SELECT uniq(team), min(team) FROM job_costs",
    "SELECT sum(cost_usd) FROM ledger", "SELECT bar(count(), 0, 9) FROM alerts", "SELECT histogram(3)(version) FROM jobs",
    "SELECT groupBitXor(cityHash64(*)) FROM jobs", "SELECT sumIf(1, team != '" + OWN + "') FROM jobs",
)  # fmt: skip
STATEMENTS: Final = (
    *(f"SELECT {each.replace('{table}', table).replace('{}', column)} FROM {table}" for each in VALUES for table, column in COLUMNS[:4]),
    *WHOLE,
)  # fmt: skip
#: Teams whose names come near that of the other.
NEAR: Final = (
    OTHER.upper(), OTHER.title(), f"{OTHER} ", f" {OTHER}", f"{OTHER}\n", f"{OTHER}\x00", f"\u202e{OTHER}", f"{OTHER}\u200b", OTHER[:-1],
    f"{OTHER}x", "%", "zqx%", "_" * len(OTHER), ".*", "*", "'", "''", "\\", "' OR 1 = 1 --", "') OR team LIKE ('%", "unhex('')",
    f"x', '{OTHER}", f"x\\', \\'{OTHER}", f"{OTHER.replace('q', chr(0x24E0))}", "e\u0301", "{teams}", "{own_jobs}", "\U0001f600",
)  # fmt: skip
ACCEPTS: Final = ("application/json", "text/csv", "application/vnd.apache.arrow.stream", "text/plain", "*/*")
#: For each server few enough, whatever else the machine does.
_PARTS: Final = 20
_NEAR_PARTS: Final = 14
_TABLES: Final = ("jobs", "job_costs")


def bound_to(team: str, number: int) -> tuple[dict[str, str], dict[bytes, ControlEvent]]:
    """What shows a token of a team, and its record."""
    token, record = token_of(f"near-{number}", "read", "query", teams=(team,))
    return {"Authorization": f"Bearer {token}"}, record


def tells(body: bytes, *asked: str) -> bool:
    """Whether an answer has more of the other team than it was asked with."""
    text = body.decode(errors="replace")
    for each in sorted(
        {word for one in asked for word in (one, quote(one), json.dumps(one)[1:-1])}, key=len, reverse=True
    ):
        text = text.replace(each, "")
    return MARKER in text or str(NUMBER) in text


def test_there_are_as_many_as_are_said() -> None:
    assert len(set(STATEMENTS)) >= 300


def answers(marked: ClickHouseStore, statements: tuple[str, ...]) -> tuple[list[str], Counter[int]]:
    """Statements whose answers tell of another team, or of a value in an error; and how many had which status."""
    found: Counter[int] = Counter()
    telling: list[str] = []

    async def work(client: Client) -> None:
        for place, sql in enumerate(statements):
            headers = {**BOUND, "Accept": ACCEPTS[place % 2]}
            url = f"{client.server.url}/api/v1/query"
            async with client.session.post(url, json={"sql": sql}, headers=headers) as answer:
                body = await answer.read()
                shown = [value for name, value in answer.headers.items() if name != "Date"]
            found[answer.status] += 1
            assert answer.status in (200, 400), (sql, answer.status, body)
            if answer.status == 200 and sql.startswith("SELECT"):
                body = (
                    body.partition(b'"rows"')[2] or body.partition(b"\n")[2]
                )  # a column is named by the statement
            literals = [sql, OTHER, MARKER] if answer.status == 400 else []
            # Of an error about a row only its kind is said, of the own row, too.
            has_value = answer.status == 400 and b"own-" in body and "own-" not in sql
            if tells(body, *literals) or tells(" ".join(shown).encode()) or has_value:
                telling.append(sql)

    served(marked, work, filed=RECORD)
    return telling, found


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_statement_about_values_tells_of_another_team(marked: ClickHouseStore, part: int) -> None:
    telling, found = answers(marked, STATEMENTS[part::_PARTS])
    assert telling == []
    assert found[200], found  # what is refused alone shows nothing


#: What is left out of the guard, by a line that runs in the process of a query before it; and some statements, of which some tell then.
HOLES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "no condition on one table": (
        "import sinks.query.team_rows as rows; rows.FILTERS = {**rows.FILTERS, 'jobs': '1'}",
        STATEMENTS[40:300:32],
    ),
    "no condition behind a view": (
        "import sinks.query.team_rows as rows; rows.FILTERS = {**rows.FILTERS, 'job_minutes': '1'}",
        ("SELECT * FROM job_costs", "SELECT * FROM ledger", "SELECT * FROM cost_hours", "SELECT * FROM level_costs"),
    ),
    "errors as the engine words them": (
        "import sinks.query.embedded as one; one.failing_unseen = one.nullcontext",
        STATEMENTS[2:64:8],
    ),
}  # fmt: skip


@pytest.mark.parametrize("hole", HOLES)
def test_a_planted_hole_is_found(marked: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, hole: str) -> None:
    line, statements = HOLES[hole]
    child = "from sinks.query.child"
    monkeypatch.setattr(process, "_START", process._START.replace(child, f"{line}; {child}"))
    telling, found = answers(marked, statements)
    assert telling, found


@pytest.mark.parametrize("part", range(_NEAR_PARTS))
def test_a_team_that_is_named_nearly_alike_is_another(marked: ClickHouseStore, part: int) -> None:
    near = NEAR[part::_NEAR_PARTS]
    made = [bound_to(team, number) for number, team in enumerate(near)]
    records = {key: event for _, record in made for key, event in record.items()}

    async def work(client: Client) -> int:
        asked = 0
        for team, (headers, _) in zip(near, made, strict=True):
            for table in _TABLES:
                url = f"{client.server.url}/api/v1/query"
                body = {"sql": f"SELECT count() AS n FROM {table}"}
                async with client.session.post(url, json=body, headers=headers) as answer:
                    said = await answer.read()
                assert answer.status == 200, (team, said)
                assert json.loads(said)["rows"] in ([[0]], [["0"]]), (team, table, said)
                asked += 1
            for path in ("jobs", "costs?by=team"):
                async with client.session.get(
                    f"{client.server.url}/api/v1/{path}", headers=headers
                ) as answer:
                    said = await answer.read()
                # What is bound to a team says so, by its name.
                assert not tells(said, f"team {team}", team, OTHER_JOB), (team, path, said)
                assert answer.status in (200, 404), (team, path, said)
                asked += 1
        return asked

    assert served(marked, work, filed=records) == len(near) * 4


@pytest.mark.parametrize("part", range(11))
def test_no_request_about_caches_streams_and_formats_tells_of_another_team(
    marked: ClickHouseStore, part: int
) -> None:
    paths = (
        "/api/v1/jobs", "/api/v1/burn", "/api/v1/costs", "/api/v1/alerts", "/api/v1/budgets", "/api/v1/experiments", "/api/v1/tables",
        "/api/v1/forecast", "/api/v1/dashboards", f"/api/v1/jobs/{OWN_JOB}/receipt", "/api/v1/savings",
    )  # fmt: skip
    more: tuple[tuple[dict[str, str], str], ...] = (
        ({"If-None-Match": "*"}, ""), ({"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, ""), ({"Range": "bytes=0-10"}, ""),
        ({"Accept": "text/csv"}, ""), ({"Accept-Language": OTHER}, ""), ({"X-Request-Id": OTHER}, ""), ({"Last-Event-ID": OTHER_ALERT}, ""),
        ({"Cookie": f"trainfare_session=1.{'0' * 64}.{MARKER}"}, ""), ({"X-Partial": "all"}, ""),
    )  # fmt: skip

    async def work(client: Client) -> tuple[int, Any]:
        asked, first = 0, b""
        # Somebody who sees all asks first: what was kept of the answer is not for others.
        for path in paths[part::11]:
            await client.session.get(client.server.url + path, headers={"Authorization": f"Bearer {ALL[0]}"})
            for headers, query in more:
                url = client.server.url + path + query
                async with client.session.get(url, headers={**BOUND, **headers}) as answer:
                    body = await answer.read()
                said = (
                    body
                    + " ".join(
                        value for name, value in answer.headers.items() if name != "X-Request-Id"
                    ).encode()
                )
                assert not tells(said, *headers.values()), (path, headers, said)
                assert answer.status in (200, 304, 400, 404), (path, headers, body)
                assert "ETag" not in answer.headers, path
                asked += 1
        async with client.session.get(
            f"{client.server.url}/api/v1/stream", headers={**BOUND, "Last-Event-ID": OTHER_ALERT}
        ) as answer:
            while first.count(b"data:") < 2:
                first += await asyncio.wait_for(answer.content.readany(), 30)
        async with client.session.get(f"{client.server.url}/metrics", headers=BOUND) as answer:
            assert answer.status == 403
        return asked, first

    asked, stream = served(marked, work, filed={**RECORD, **ALL[1]})
    assert asked == len(paths[part::11]) * len(more)
    assert not tells(stream)
    assert OWN_JOB.encode() in stream or b'"partial"' in stream, stream[:500]


def test_labels_of_metrics_name_no_team_job_or_person(marked: ClickHouseStore) -> None:
    """Prometheus is read by those who see no team's figures."""
    token, record = token_of("prometheus", "metrics")

    async def work(client: Client) -> bytes:
        for team in (OWN, OTHER):
            await client.session.get(f"{client.server.url}/api/v1/jobs/{team}", headers=BOUND)
        url = f"{client.server.url}/metrics"
        async with client.session.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
            assert answer.status == 200
            return await answer.read()

    found = served(marked, work, filed={**RECORD, **record})
    assert b"trainfare_" in found
    assert not tells(found)


ALL: Final = token_of("sees-all", "read", "query")
