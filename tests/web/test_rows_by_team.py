"""Who is bound to a team is answered from rows of this team alone: every route, and SQL of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.web.marked_store import (
    MARKER,
    NUMBER,
    OTHER_ALERT,
    OTHER_JOB,
    OWN,
    OWN_ALERT,
    OWN_JOB,
    fill,
    token_of,
)
from tests.web.serving import Client, served

TOKEN, RECORD = token_of("viewer", "read", "query", teams=(OWN,))
BOUND: Final = {"Authorization": f"Bearer {TOKEN}"}
#: Statements by which one could learn of rows of others.
SNEAKING: Final = (
    "SELECT * FROM job_minutes",
    "SELECT * FROM jobs SETTINGS join_use_nulls = 1",
    "SELECT * FROM level_costs",
    "SELECT * FROM job_costs",
    "SELECT * FROM alerts AS a JOIN deliveries AS d ON a.alert_id = d.alert_id",
    "WITH jobs AS (SELECT * FROM job_minutes) SELECT * FROM jobs",
    "SELECT job_id, (SELECT max(cost_usd) FROM job_minutes) FROM jobs",
    "SELECT * FROM (SELECT job_id FROM burn_rates UNION ALL SELECT job_id FROM attempts)",
    "SELECT count() FROM job_minutes",
    "SELECT max(job_id), min(usd_per_hour) FROM burn_rates",
    f"SELECT '{OTHER_JOB[:3]}' || 'x' FROM numbers(2) WHERE '{OWN_JOB}' IN (SELECT job_id FROM jobs)",
    "SELECT * FROM view(SELECT * FROM jobs)",
    "SELECT arrayJoin(groupArray(job_id)) FROM job_minutes",
    "SELECT job_id FROM jobs AS job_minutes",
    "SELECT * FROM controls",
    "SELECT * FROM budget_use",
    "SELECT * FROM actions",
    "SELECT * FROM receipts",
    "DESCRIBE TABLE (SELECT * FROM jobs)",
)
#: Each refused, by a word of its answer.
REFUSED: Final = {
    "SELECT * FROM node_minutes": "not kept by team",
    "SELECT * FROM changes": "not kept by team",
    "SELECT * FROM idle_hours": "not kept by team",
    "SELECT * FROM snapshots": "not kept by team",
    "SHOW TABLES": "not kept by team",
    "SELECT * FROM system.tables": "no table",
    "SELECT * FROM job_minutes PREWHERE intDiv(1, quantity)": "PREWHERE",
    "EXPLAIN ESTIMATE SELECT * FROM jobs": "EXPLAIN",
    "SELECT _part FROM jobs": "begins with",
    "SELECT jobs._part_offset FROM jobs": "begins with",
    "SELECT * FROM jobs SETTINGS max_rows_to_read = 1": "setting",
    "SELECT * FROM jobs SETTINGS final = 0": "setting",
    "SELECT rowNumberInBlock() FROM jobs": "function",
    "SELECT * FROM alerts AS `trainfare.jobs`": "alias",
}
#: Each would fail if it were tried on a row of the other team, and only then.
ORACLES: Final = (
    f"SELECT job_id FROM job_minutes WHERE throwIf(job_id = '{OTHER_JOB}') = 0",
    f"SELECT count() FROM job_minutes WHERE throwIf(startsWith(node, '{MARKER}')) = 0 AND quantity > 0",
    f"SELECT * FROM jobs WHERE intDiv(1, gpu_count != {NUMBER}) = 1",
    f"SELECT count() FROM burn_rates WHERE intDiv(100, toInt64(usd_per_hour) - {NUMBER}) < 1000",
    f"SELECT count() FROM job_hours WHERE intDiv(1, toUnixTimestamp(hour) - if(job_id = '{OWN_JOB}', 1, toUnixTimestamp(hour))) >= 0",
    f"SELECT * FROM jobs AS j JOIN job_minutes AS m ON j.job_id = m.job_id WHERE throwIf(m.job_id = '{OTHER_JOB}') = 0",
    f"SELECT * FROM job_costs WHERE throwIf(team != '{OWN}') = 0",
    f"SELECT * FROM ledger WHERE throwIf(team != '{OWN}') = 0",
    f"SELECT job_id FROM jobs ORDER BY throwIf(job_id = '{OTHER_JOB}')",
    f"SELECT * FROM alerts WHERE CAST(if(team = '{OWN}', '1', team), 'Int64') = 1",
    f"SELECT * FROM attempts WHERE toInt64(if(job_id = '{OWN_JOB}', '1', job_id)) = 1",
)


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    opened = ClickHouseStore(Embedded(data_dir=tmp_path_factory.mktemp("marked") / "meter"))
    try:
        fill(opened)
        yield opened
    finally:
        opened.close()


async def asked(client: Client, sql: str, accept: str = "application/json") -> tuple[int, bytes, Any]:
    url = f"{client.server.url}/api/v1/query"
    headers = {**BOUND, "Accept": accept}
    async with client.session.post(url, json={"sql": sql}, headers=headers) as answer:
        return answer.status, await answer.read(), answer.headers


def _tells(body: bytes) -> bool:
    return MARKER.encode() in body or str(NUMBER).encode() in body


def test_no_statement_tells_of_another_team(marked: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for sql in (*SNEAKING, *ORACLES):
            status, body, headers = await asked(client, sql)
            text = sql if status == 200 else ""
            assert not _tells(body), (sql, body)
            assert status == 200, (text, sql, body)
            assert "X-Rows-Read" not in headers
        for sql, word in REFUSED.items():
            status, body, _ = await asked(client, sql)
            assert (status, word in body.decode()) == (400, True), (sql, body)
        for table in ("jobs", "job_minutes", "alerts", "burn_rates", "job_hours", "budget_use", "controls"):
            _, body, _ = await asked(client, f"SELECT count() AS n FROM {table}")
            assert b"[[1]]" in body.replace(b'"', b""), (table, body)

    served(marked, work, filed=RECORD)


def test_errors_have_no_value_of_a_row(marked: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        status, body, _ = await asked(client, "SELECT toInt64(owner) FROM jobs")
        assert (status, b"CANNOT_PARSE_TEXT" in body, b"own-owner" in body) == (400, True, False), body
        status, body, _ = await asked(client, "SELECT FROM jobs WHERE (")
        assert (status, b"syntax error" in body) == (400, True), body

    served(marked, work, filed=RECORD)


BELOW_JOB: Final = ("explain", "rules", "similar", "elsewhere", "receipt")
BELOW_ALERT: Final = ("why", "margins", "before")
ROUTES: Final = (
    "/api/v1/jobs",
    f"/api/v1/jobs?q={MARKER}",
    f"/api/v1/jobs/{OWN_JOB}",
    "/api/v1/burn",
    "/api/v1/costs",
    "/api/v1/costs?by=team",
    "/api/v1/costs/month",
    "/api/v1/costs/span",
    "/api/v1/alerts",
    "/api/v1/alerts?names=1",
    f"/api/v1/alerts/{OWN_ALERT}",
    "/api/v1/budgets",
    "/api/v1/budgets/detail?budget=own-budget&kind=job&name=a-job",
    "/api/v1/experiments",
    "/api/v1/experiments/own-experiment",
    "/api/v1/tables",
    *(f"/api/v1/jobs/{OWN_JOB}/{below}" for below in BELOW_JOB if below != "receipt"),
    *(f"/api/v1/alerts/{OWN_ALERT}/{below}" for below in BELOW_ALERT),
    "/api/v1/forecast",
    "/api/v1/forecast?by=owner",
    "/api/v1/coverage",
    "/api/v1/savings",
    "/api/v1/carbon",
    "/api/v1/carbon?by=job_id",
    "/api/v1/dashboards",
    f"/api/v1/dashboards/executive?job={OWN_JOB}",
    f"/api/v1/dashboards/debug?job={OWN_JOB}",
    "/api/v1/panels/top_jobs?from_ms=1780300000000&to_ms=1780394400000",
    f"/api/v1/headroom?job={OWN_JOB}",
)


def test_each_route_answers_of_the_own_team(marked: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for path in ROUTES:
            async with client.session.get(client.server.url + path, headers=BOUND) as answer:
                body = await answer.read()
                assert answer.status == 200, (path, body)
                assert not _tells(body), (path, body)
                assert answer.headers["X-Partial"] == "team vision", path
                assert b'"partial":"team vision"' in body or body[:1] == b"[", path
        jobs = await client.get("/api/v1/jobs", headers=BOUND)
        assert [each["job_id"] for each in jobs["jobs"]] == [OWN_JOB]
        assert jobs["total"] == 1
        for path in (
            f"/api/v1/jobs/{OTHER_JOB}",
            f"/api/v1/alerts/{OTHER_ALERT}",
            f"/api/v1/experiments/{MARKER}-experiment",
            *(f"/api/v1/jobs/{OTHER_JOB}/{below}" for below in BELOW_JOB),
            *(f"/api/v1/job/{below}?id={OTHER_JOB}" for below in BELOW_JOB),
            *(f"/api/v1/alerts/{OTHER_ALERT}/{below}" for below in BELOW_ALERT),
        ):
            unknown = path.replace(MARKER, "no-such").replace(str(NUMBER), "00000000")
            found = [await client.get(each, 404, headers=BOUND) for each in (path, unknown)]
            said = [
                each["error"]["message"].replace(MARKER, "no-such").replace(str(NUMBER), "00000000")
                for each in found
            ]
            assert said[0] == said[1]
        refused = await client.get("/api/v1/idle", 403, headers=BOUND)
        assert refused["error"]["code"] == "beyond_token"
        async with client.session.get(f"{client.server.url}/api/v1/stream", headers=BOUND) as stream:
            event = await stream.content.readuntil(b"}\n\n")
            assert b"event: snapshot" in event
            assert OWN_JOB.encode() in event
            assert MARKER.encode() not in event
            assert b'"partial":"team vision"' in event

    served(marked, work, filed=RECORD)
