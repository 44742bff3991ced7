import time

import pytest

from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.guard import check
from sinks.errors import QueryFailed, QueryRefused

KNOWN = ["file", "url", "remote", "s3", "numbers", "values", "view", "executable", "mergeTreeIndex"]

READING = [
    "SELECT 1",
    "select 1;",
    " \n-- a comment; with drop\nSELECT 1 /* ; into outfile 'x' */ ;\n ; ",
    "(SELECT 1) UNION ALL (SELECT 2)",
    "WITH 1 AS x SELECT x",
    "SHOW TABLES",
    "DESCRIBE jobs",
    "EXPLAIN SELECT 1",
    "EXISTS jobs",
    "SELECT 'a; b', 'it''s', 'file(', \"a;b\" FROM (SELECT 1 AS \"a;b\")",
    "SELECT 'into outfile', 'x\\' ; file('",
    "SELECT * FROM numbers(2)",
    "SELECT file, url FROM (SELECT 1 AS file, 2 AS url)",
    "SELECT formatDateTime(now(), '%F') AS format",
    "SELECT count() FROM jobs SETTINGS max_threads = 1",
]
MORE_THAN_READING = [
    "",
    ";",
    "-- nothing",
    "DROP TABLE jobs",
    "INSERT INTO jobs SELECT 1",
    "SET readonly = 0",
    "KILL QUERY WHERE 1",
    "SYSTEM FLUSH LOGS",
    "ALTER TABLE jobs DELETE WHERE 1",
    "CREATE TEMPORARY TABLE t (a Int8)",
    "OPTIMIZE TABLE jobs",
    "USE default",
    "TRUNCATE TABLE jobs",
    "SELECT 1; DROP TABLE jobs",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "SELECT 1 into -- hidden\n outfile '/tmp/x'",
    "SELECT * FROM file('/etc/passwd', LineAsString)",
    "SELECT * FROM FILE ('/etc/passwd')",
    "SELECT * FROM `file`('/etc/passwd')",
    "SELECT * FROM \"fi\\le\" /* here */ ('/etc/passwd')",
    "SELECT * FROM \u201cfile\u201d('/etc/passwd', 'LineAsString')",
    "SELECT \u201cfile\u201d('/etc/passwd')",
    "SELECT * FROM `fi\\x6ce`('/etc/passwd')",
    "SELECT * FROM \u201cdefault\u201d.`/etc/passwd`",
    'SELECT * FROM "def\\x61ult".`/etc/passwd`',
    "SELECT file('/etc/passwd')",
    "EXPLAIN SELECT * FROM url('http://example.org')",
    "SELECT * FROM jobs WHERE job_id IN (SELECT * FROM remote('h', system.one))",
    "SELECT * FROM view(SELECT * FROM s3('x'))",
    "SELECT 'it''s' FROM file('/etc/passwd')",
    "SELECT 'a\\'' FROM file('/etc/passwd')",
    "SELECT $x$ ' $x$ FROM file('/etc/passwd')",
    "SELECT * FROM default.`/etc/passwd`",
    "SELECT * FROM `default` . `/etc/passwd`",
    "SELECT 1 FORMAT JSON",
]


@pytest.mark.parametrize("sql", READING)
def test_what_only_reads_passes(sql: str) -> None:
    assert not check(sql, KNOWN).rstrip().endswith(";")


@pytest.mark.parametrize("sql", MORE_THAN_READING)
def test_what_does_more_is_refused(sql: str) -> None:
    with pytest.raises(QueryRefused):
        check(sql, KNOWN)


@pytest.mark.parametrize("sql", READING)
def test_the_engine_runs_what_passes(store: ClickHouseStore, sql: str) -> None:
    assert store.ask(sql).names


@pytest.mark.parametrize("sql", MORE_THAN_READING)
def test_the_store_refuses_too(store: ClickHouseStore, sql: str) -> None:
    with pytest.raises(QueryRefused):
        store.ask(sql)


@pytest.mark.parametrize(
    "sql", ["INSERT INTO meta VALUES ('a', 'b', 1)", "DROP TABLE meta", "SET readonly = 0"]
)
def test_the_engine_is_read_only_behind_the_guard(
    store: ClickHouseStore, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.clickhouse.guard.check", lambda text, names: text)
    with pytest.raises(QueryFailed, match="readonly"):
        store.ask(sql)


def test_wrong_sql_says_what_is_wrong(store: ClickHouseStore) -> None:
    with pytest.raises(QueryFailed, match="nope"):
        store.ask("SELECT nope FROM jobs")


def test_an_empty_answer_has_its_columns(store: ClickHouseStore) -> None:
    answer = store.ask("SELECT job_id, minute FROM job_minutes WHERE job_id = 'x' -- none\n;")
    assert answer.names == ("job_id", "minute")
    assert answer.types == ("String", "DateTime('UTC')")
    assert list(answer.rows()) == []


def test_parameters_are_bound(store: ClickHouseStore) -> None:
    assert list(store.ask("SELECT {x:String} AS x", {"x": "'; DROP TABLE jobs"}).rows()) == [
        ("'; DROP TABLE jobs",)
    ]


@pytest.mark.parametrize("quote", ["'", '"', "`"])
def test_a_quote_that_is_not_closed_is_refused_at_once(quote: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(QueryRefused, match=f"the quote {quote} at character 8 is not closed"):
        check("SELECT " + quote + ("\\" + quote) * 100_000, ())
    assert time.monotonic() - began_s < 5
