"""Three hundred hostile statements and requests of a viewer of one team, written by hand: none tells of the other one, none writes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from sinks.clickhouse import ClickHouseStore
from tests.web.marked_store import MARKER, NUMBER, OTHER, OTHER_ALERT, OTHER_JOB, OWN, OWN_JOB
from tests.web.serving import Client, served
from tests.web.test_rows_by_team import BOUND, RECORD, asked, marked

__all__ = ["marked"]

TABLES: Final = (
    "jobs",
    "job_minutes",
    "alerts",
    "burn_rates",
    "changes",
    "controls",
    "token_uses",
    "node_hours",
)
#: What takes a table, or another place, by a function.
SOURCES: Final = (
    "merge(currentDatabase(), '{}')",
    "merge('.*', '{}')",
    "merge(REGEXP('.*'), '{}')",
    "remote('127.0.0.1', currentDatabase(), '{}')",
    "remoteSecure('127.0.0.1:9440', default.{})",
    "cluster('default', default.{})",
    "clusterAllReplicas('default', default, {})",
    "mergeTreeIndex(currentDatabase(), {})",
    "mergeTreeParts(currentDatabase(), {})",
    "mergeTreeProjection(currentDatabase(), {}, 'p')",
    "mergeTreeTextIndex(currentDatabase(), {}, i)",
    "loop({})",
    "loop(currentDatabase(), '{}')",
    "dictionary('{}')",
    "viewIfPermitted(SELECT * FROM {} ELSE null('x Int8'))",
    "viewExplain('EXPLAIN', '', (SELECT * FROM {}))",
    "file('{}.csv')",
    "fileCluster('default', '{}.csv')",
    "url('http://127.0.0.1:1/{}', CSV, 'a String')",
    "s3('http://127.0.0.1:1/{}', 'a', 'b')",
    "executable('cat {}', TabSeparated, 'x String')",
    "sqlite('{}', 'x')",
    "postgresql('127.0.0.1:1', 'd', '{}', 'u', 'p')",
    "mysql('127.0.0.1:1', 'd', '{}', 'u', 'p')",
    "mongodb('127.0.0.1:1', 'd', '{}', 'u', 'p', 'x String')",
    "redis('127.0.0.1:1', '{}', 'x String')",
    "hdfs('hdfs://127.0.0.1/{}', 'CSV', 'x String')",
    "deltaLake('http://127.0.0.1:1/{}')",
    "iceberg('http://127.0.0.1:1/{}')",
    "input('{} String')",
    "fuzzQuery('SELECT * FROM {}')",
    "timeSeriesData({})",
    "Python({})",
    'format(JSONEachRow, \'{{"a": "{}"}}\')',
    "generateRandom('a {}')",
    "zeros(10, {})",
)
#: Names that stand for another one, in a scope of their own.
SHADOWS: Final = (
    "WITH jobs AS (SELECT 1 AS job_id) SELECT * FROM {}",
    "WITH {} AS (SELECT * FROM {}) SELECT * FROM {}",
    "WITH a AS (SELECT * FROM {}), {} AS (SELECT * FROM a) SELECT * FROM {}",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r, {}",
    "WITH x AS (WITH {} AS (SELECT 1 AS team) SELECT * FROM {}) SELECT x.*, j.* FROM x, {} AS j",
    "SELECT * FROM {} AS team",
    "SELECT '" + OWN + "' AS team, * FROM {}",
    "WITH '" + OWN + "' AS team SELECT * FROM {} WHERE team = '" + OWN + "'",
    "WITH (SELECT '" + OWN + "') AS job_id SELECT * FROM {}",
    "SELECT * REPLACE ('" + OWN + "' AS team) FROM {}",
    "SELECT * EXCEPT team FROM {}",
    "SELECT COLUMNS('.*') FROM {}",
    "SELECT COLUMNS(team) APPLY(x -> x) FROM {}",
    "SELECT * APPLY(toString) FROM {}",
    "SELECT arrayMap(team -> team, [1]), * FROM {}",
    "SELECT arrayMap(job_id -> (SELECT max(team) FROM {}), [1])",
    "SELECT arrayFilter(x -> x IN (SELECT team FROM {}), ['" + OTHER + "', '" + OWN + "'])",
    "SELECT '" + OTHER_JOB[:3] + "' IN {}",
    "SELECT toString(tuple(*)) FROM {}",
    "SELECT formatRow('JSONEachRow', *) FROM {}",
    "SELECT t.* FROM (SELECT * FROM {}) AS t SEMI JOIN {} AS u USING team",
    "SELECT u.* FROM {} AS t ANTI JOIN {} AS u ON t.team != u.team",
    "SELECT * FROM {} AS t ASOF JOIN {} AS u ON t.team = u.team AND t.version >= u.version",
    "SELECT * FROM {} ARRAY JOIN [team] AS team",
    "SELECT * FROM {} FINAL SAMPLE 1",
    "SELECT * FROM {} WHERE team = '" + OTHER + "' OR 1 = 1 -- ",
    "SELECT * FROM {} WHERE 1 /* */ UNION DISTINCT SELECT * FROM {} INTERSECT SELECT * FROM {}",
    "SELECT * FROM {} QUALIFY row_number() OVER (ORDER BY team DESC) = 1",
    "SELECT any(team) OVER (ORDER BY team ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM {}",
    "SELECT max(team) FROM {} GROUP BY ALL WITH TOTALS WITH ROLLUP",
    "SELECT team FROM {} LIMIT 1 BY team WITH TIES",
    "SELECT * FROM {} ORDER BY team WITH FILL INTERPOLATE",
    "SELECT EXISTS(SELECT 1 FROM {} WHERE team != '"
    + OWN
    + "') AS found, if(found, '"
    + MARKER[:5]
    + "' || 'marker', '')",
    "SELECT quantiles(0.5)(length(team)), uniq(team), groupUniqArray(team), topK(9)(team) FROM {}",
    "SELECT sumMap(map(team, 1)), anyLast(team), argMax(team, version), groupConcat(team) FROM {}",
    "FROM {} SELECT *",
    "TABLE {}",
    "SELECT * FROM ({})",
    "(SELECT * FROM {}) UNION ALL (SELECT * FROM {})",
    'SELECT * FROM "{}"',
    "SELECT * FROM `{}`",
    "SELECT * FROM default.{}",
    "SELECT * FROM {{db:Identifier}}.{}",
    "SELECT * FROM {{{}:Identifier}}",
    "SELECT * FROM {}\x00",
    "SELECT * FROM {};SELECT 1",
)
#: Of the whole engine, whatever the table.
ALONE: Final = (
    "EXPLAIN SELECT * FROM jobs",
    "EXPLAIN AST SELECT * FROM jobs",
    "EXPLAIN SYNTAX SELECT * FROM jobs",
    "EXPLAIN QUERY TREE SELECT * FROM jobs",
    "EXPLAIN PLAN indexes = 1 SELECT * FROM jobs",
    "EXPLAIN PIPELINE SELECT * FROM jobs",
    "EXPLAIN TABLE OVERRIDE mysql('', '', '', '', '')",
    "EXPLAIN CURRENT TRANSACTION",
    "SELECT * FROM (EXPLAIN indexes = 1 SELECT * FROM jobs)",
    "DESCRIBE changes",
    "DESCRIBE TABLE remote('127.0.0.1', system.one)",
    "DESCRIBE TABLE file('/etc/passwd', 'LineAsString')",
    "DESC url('http://127.0.0.1:1/', CSV)",
    "SHOW CREATE TABLE jobs",
    "SHOW CREATE VIEW job_costs",
    "SHOW DATABASES",
    "SHOW TABLES FROM system",
    "SHOW PROCESSLIST",
    "SHOW SETTINGS LIKE '%'",
    "SHOW INDEX FROM jobs",
    "SHOW COLUMNS FROM changes",
    "SHOW FUNCTIONS",
    "SHOW GRANTS",
    "SHOW ENGINES",
    "SHOW CLUSTERS",
    "SHOW DICTIONARIES",
    "SHOW ACCESS",
    "EXISTS TABLE jobs",
    "CHECK TABLE jobs",
    "USE system",
    "SET final = 0",
    "SYSTEM FLUSH LOGS",
    "KILL QUERY WHERE 1",
    "BACKUP TABLE jobs TO Disk('d', 'x')",
    "SELECT * FROM jobs INTO OUTFILE '/tmp/x'",
    "SELECT * FROM jobs FORMAT Native",
    "INSERT INTO FUNCTION file('/tmp/x') SELECT * FROM jobs",
    "CREATE TEMPORARY TABLE t AS SELECT * FROM jobs",
    "ALTER TABLE jobs DELETE WHERE 1",
    "ATTACH TABLE jobs",
    "DETACH TABLE jobs",
    "OPTIMIZE TABLE jobs",
    "RENAME TABLE jobs TO j",
    "EXECUTE AS admin SELECT 1",
    "PARALLEL WITH SELECT 1",
    "SELECT dictGet('jobs', 'team', 1)",
    "SELECT dictGetOrNull('jobs', 'team', 1)",
    "SELECT joinGet('jobs', 'team', '" + OTHER_JOB + "')",
    "SELECT file('/etc/passwd')",
    "SELECT getSetting('max_threads')",
    "SELECT getServerSetting('path'), getMergeTreeSetting('index_granularity')",
    "SELECT catboostEvaluate('/etc/passwd', 1)",
    "SELECT evalMLMethod(1)",
    "SELECT hasColumnInTable('default', 'jobs', 'team')",
    "SELECT filesystemAvailable(), hostName(), tcpPort(), version(), uptime()",
    "SELECT initialQueryID(), queryID(), currentUser(), currentDatabase()",
    "SELECT blockSize(), blockNumber(), rowNumberInAllBlocks() FROM jobs",
    "SELECT runningDifference(version), neighbor(team, 1) FROM jobs",
    "SELECT sleepEachRow(0.1) FROM job_minutes",
    "SELECT addressToLine(1), demangle('x'), addressToSymbol(1)",
    "SELECT getMaxTableNameLengthForDatabase('default')",
    "SELECT lowCardinalityIndices(toLowCardinality(team)) FROM jobs",
    "SELECT byteSize(*), dumpColumnStructure(team) FROM jobs",
    "SELECT initializeAggregation('groupArrayState', team) FROM jobs",
    "SELECT arrayReduce('groupArray', (SELECT groupArray(team) FROM jobs))",
    "SELECT finalizeAggregation(CAST('x' AS AggregateFunction(groupArray, String)))",
    "SELECT structureToProtobufSchema('a ' || (SELECT max(team) FROM jobs))",
    "SELECT transform(team, (SELECT groupArray(team) FROM jobs), (SELECT groupArray(owner) FROM jobs), '') FROM jobs",
    "SELECT * FROM jobs SETTINGS additional_table_filters = {'jobs': '1'}",
    "SELECT * FROM jobs SETTINGS additional_result_filter = '1'",
    "SELECT * FROM jobs SETTINGS optimize_move_to_prewhere = 1",
    "SELECT * FROM jobs SETTINGS allow_experimental_analyzer = 0",
    "SELECT * FROM jobs SETTINGS enable_positional_arguments = 0, readonly = 0",
    "SELECT * FROM (SELECT * FROM jobs SETTINGS final = 0)",
    "SELECT * FROM jobs SETTINGS query_cache_share_between_users = 1, use_query_cache = 1",
    "SELECT * FROM system.query_log",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM INFORMATION_SCHEMA.COLUMNS",
    "SELECT * FROM system.processes, jobs",
    "SELECT * FROM jobs WHERE team ILIKE '%' ESCAPE '\\\\'",
    "SELECT * FROM jobs WHERE '\\' OR 1=1 --'",
    "SELECT $$" + OWN + "$$, * FROM jobs",
    "SELECT $x$ FROM changes $x$, * FROM jobs",
    "SELECT * FROM jobs -- \u2028 UNION ALL SELECT * FROM changes",
    "SELECT\u00a0*\u00a0FROM\u00a0jobs",
    "SELECT * FROM \uff4aobs",
    "SELECT x'" + OTHER.encode().hex() + "' IN (SELECT team FROM jobs), * FROM jobs",
    "SELECT * FROM jobs WHERE team = unhex('" + OTHER.encode().hex() + "')",
    f"SELECT if((SELECT count() FROM alerts WHERE alert_id = '{OTHER_ALERT}') > 0, throwIf(1), 0)",
    f"SELECT count() FROM jobs WHERE gpu_count = {NUMBER}",
    f"SELECT toDecimal64(1, 9) / (1 - (SELECT count() FROM job_minutes WHERE job_id = '{OTHER_JOB}'))",
    "SELECT reinterpretAsUInt64(team) + 0 FROM jobs ORDER BY 1",
)  # fmt: skip
STATEMENTS: Final = (
    *(f"SELECT * FROM {source.format(table)}" for source in SOURCES for table in TABLES[:4]),
    *(
        text.replace("{}", table).replace("{{", "{").replace("}}", "}")
        for text in SHADOWS
        for table in TABLES[1:4]
    ),
    *ALONE,
)
#: Method, path, headers beside the token; none is let in to more than the token may.
REQUESTS: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("GET", "/api/v1/jobs?team=" + OTHER, {}),
    ("GET", "/api/v1/jobs", {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Email": "root"}),
    ("GET", "/api/v1/jobs", {"X-Trainfare-Proxy-Secret": "x" * 32, "X-Forwarded-Groups": "admins"}),
    ("GET", "/api/v1/jobs", {"X-HTTP-Method-Override": "POST", "X-Original-URL": "/api/v1/changes"}),
    ("GET", "/api/v1//changes", {}),
    ("GET", "/api/v1/./changes", {}),
    ("GET", "/api/v1/jobs/..%2fchanges", {}),
    ("GET", "/api/v1/jobs/%2e%2e/changes", {}),
    ("GET", "/api/v1/changes%00", {}),
    ("GET", "/API/V1/changes", {}),
    ("GET", "/api/v1/changes", {}),
    ("HEAD", "/api/v1/changes", {}),
    ("OPTIONS", "/api/v1/changes", {"Origin": "https://evil.example.com"}),
    ("TRACE", "/api/v1/jobs", {}),
    ("GET", "/api/v1/tokens", {}),
    ("GET", "/api/v1/approvals", {}),
    ("POST", "/api/v1/approvals", {}),
    ("POST", "/api/v1/controls", {}),
    ("POST", "/api/v1/prices", {}),
    ("POST", "/api/v1/events", {}),
    ("POST", "/api/v1/tokens", {}),
    ("POST", "/api/v1/sources", {}),
    ("POST", "/api/v1/closings", {}),
    ("POST", "/api/v1/receivers/test", {}),
    ("POST", "/v1/traces", {}),
    ("GET", "/metrics", {}),
    ("GET", "/api/v1/audit", {}),
    ("GET", "/api/v1/meter", {}),
    ("GET", "/api/v1/bills", {}),
    ("GET", "/api/v1/deadletters", {}),
    ("GET", "/api/v1/idle", {}),
    ("GET", f"/api/v1/jobs/{OTHER_JOB}", {}),
    ("GET", f"/api/v1/job?job_id={OTHER_JOB}", {}),
    ("GET", f"/api/v1/jobs/{OTHER_JOB}/explain?by=minute", {}),
    ("GET", f"/api/v1/jobs/{OWN_JOB}?job_id={OTHER_JOB}", {}),
    ("GET", f"/api/v1/alerts/{OTHER_ALERT}/why", {}),
    ("GET", f"/api/v1/costs?where=team={OTHER}&compare=1", {}),
    ("GET", "/api/v1/costs?by=team&where=team!=x", {}),
    ("GET", f"/api/v1/panels/jobs?team={OTHER}", {}),
    ("GET", "/api/v1/jobs", {"Origin": "https://evil.example.com"}),
    ("GET", "/api/v1/jobs", {"Sec-Fetch-Site": "cross-site"}),
    ("GET", "/api/v1/jobs", {"Host": "evil.example.com"}),
    ("GET", "/sign_in?to=//evil.example.com", {}),
    ("GET", "/sign_in?to=https://evil.example.com", {}),
    ("GET", "/sign_in?to=/%5cevil.example.com", {}),
    ("GET", "/sign_in?to=/%0d%0aLocation:%20//evil.example.com", {}),
    ("GET", "/act?to=//evil.example.com", {}),
    ("GET", "/static/../../../etc/passwd", {}),
    ("GET", "/static/%2e%2e/%2e%2e/etc/passwd", {}),
    ("GET", "/static//etc/passwd", {}),
)
#: What an answer of the engine or of a file of this machine would have.
FOREIGN: Final = (b"root:x:", b"/etc/", b"Set-Cookie: evil")


@pytest.mark.parametrize("part", range(5))
def test_no_statement_tells_of_others_or_of_the_machine(marked: ClickHouseStore, part: int) -> None:
    found: Counter[int] = Counter()

    async def work(client: Client) -> None:
        for sql in STATEMENTS[part::5]:
            status, body, headers = await asked(client, sql)
            found[status] += 1
            # A column is named by the statement; of a refusal its words are.
            said = (
                json.dumps(json.loads(body)["rows"]).encode()
                if status == 200
                else body.replace(sql.encode(), b"")
            )
            assert MARKER.encode() not in said, (sql, body)
            assert str(NUMBER).encode() not in said or str(NUMBER) in sql, (sql, body)
            assert not any(each in said for each in FOREIGN if each.decode() not in sql), (sql, body)
            assert status in (200, 400), (sql, status, body)
            assert "X-Rows-Read" not in headers, sql

    served(marked, work, filed=RECORD)
    assert found[200], found  # what is refused alone shows nothing
    assert found[400], found


def test_no_request_is_let_in_to_more(marked: ClickHouseStore) -> None:
    async def work(client: Client) -> list[tuple[int, Any]]:
        found = []
        for method, path, headers in REQUESTS:
            url = client.server.url + path
            options: dict[str, Any] = {"headers": {**BOUND, **headers}, "allow_redirects": False}
            if method == "POST":
                options["json"] = {"id": "x", "kind": "silence"}
            async with client.session.request(method, url, **options) as answer:
                body = await answer.read()
                assert MARKER.encode() not in body.replace(OTHER.encode(), b"").replace(
                    OTHER_JOB.encode(), b""
                ), path
                assert "evil" not in answer.headers.get("Location", ""), path
                assert "evil" not in answer.headers.get("Access-Control-Allow-Origin", ""), path
                assert answer.status < 500 or answer.status in (501, 503), (method, path, body)
                if method != "GET":
                    assert answer.status >= 400, (method, path, body)
                found.append((answer.status, path))
        return found

    found = served(marked, work, filed=RECORD)
    assert len(found) == len(REQUESTS)
