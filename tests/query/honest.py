"""Queries that must be answered: what analysts ask, and all SQL of the pages, the dashboards, the alerts and the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sinks.query.wire import Parameter
from streams.cli import jobs as cli_jobs
from streams.cli.dead_letters import letters as dead_letters
from streams.engine.rules import evidence
from streams.explain import changes
from streams.explain import job as explain_job
from streams.selfcheck.audit import sql as audit_sql
from streams.web import experiments, job_list_sql, queries
from tests.deploy.grafana import DASHBOARDS, expanded, targets
from tests.web.log import AS_OF_MS, ODD_ID, T0_MS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# On a page: a command, code in a line of text, or the body of a request.
_ON_A_PAGE = re.compile(
    r'trainfare sql "([^"]+)"|`((?:SELECT|WITH|SHOW|DESCRIBE|EXPLAIN)\s[^`]+)`|"sql": "([^"]+)"'
)
_READS = re.compile(r"\s*(?:SELECT|WITH)\b")
#: What the statements of the code are asked with.
VALUES: dict[str, Parameter] = {
    "from_s": 1_790_000_000,
    "after_offset": 0, "after_partition": 0, "after_topic": "", "alert": "al_1", "alerts": ["al_1", "al_2"], "at_ms": AS_OF_MS, "before": 2**62, "before_ms": 2**50, "by": "", "kind": "", "name": "", "experiment": "e", "job": "b",
    "jobs": ["a", "b", ODD_ID], "key": "log", "last": AS_OF_MS // 60_000, "limit": 50, "most": 100, "most_gpu_milli_ms": 20_000_000, "most_nano": 2_000, "owner": "", "places": [],
    "reason": "", "shard": 0, "shards": [], "since": 0, "since_ms": T0_MS - 1, "since_s": T0_MS // 1000, "state": "", "status": "",
    "at_name": "x", "at_sweep": 0, "project": "", "sweep": "name:x", "sweeps": ["name:x"], "used_since_ms": T0_MS, "day_ms": T0_MS, "until_ms": AS_OF_MS, "word0": "a", "word1": "n1",
    "team": "", "topic": "", "until": 2**62, "until_s": T0_MS // 1000 + 3600, "who": "ada",
}  # fmt: skip
#: Texts that a quoting mistake anywhere on the way would change.
AWKWARD = (
    "it's", 'say "x"', "back\\slash", "\\'", "\\\\'", "'; DROP TABLE jobs; --", "line\nbreak", "tab\there", "\r\n", "ünï 😀 日本", "{x:String}",
    "{braces}", "%s %(a)s %%", "$$", "$tag$", "--", "/* */", "`tick`", "\\N", "NULL", "", " ", "\x01\x7f", "\u202e", "[1]", "a" * 5_000,
)  # fmt: skip


class Query(NamedTuple):
    """A statement with the values of its parameters."""

    where: str  # it comes from
    sql: str
    parameters: dict[str, Parameter]


def all_queries() -> list[Query]:
    """Each statement once."""
    sources = (analysts, told_of, with_parameters, pages, dashboards, alerts, code)
    found = {(query.sql, repr(query.parameters)): query for source in sources for query in source()}
    return list(found.values())


def analysts() -> Iterator[Query]:
    """The statements of `honest.sql`."""
    text = (Path(__file__).parent / "honest.sql").read_text(encoding="utf-8")
    for number, sql in enumerate(text.split(";\n")):
        bare = "\n".join(line for line in sql.split("\n") if not line.startswith("-- "))
        if bare.strip():
            yield Query(f"honest.sql {number}", bare.strip("\n"), {})


def told_of() -> Iterator[Query]:
    """What tells of tables and of queries; `trainfare` is the name of the store's database."""
    for sql in (
        "SHOW TABLES", "show full tables from trainfare like 'job%' limit 3", "SHOW TABLES NOT LIKE '%o%'", "SHOW TABLES ILIKE 'JOB%'",
        "SHOW COLUMNS FROM jobs", "SHOW FULL COLUMNS FROM job_costs FROM trainfare LIKE '%usd'",
        "SHOW EXTENDED COLUMNS FROM ledger NOT ILIKE 'C%' LIMIT 2",
        "DESCRIBE job_costs", "DESC trainfare.jobs;", "DESCRIBE TABLE `ledger`", "DESCRIBE (SELECT job_id, cost_usd FROM job_costs)",
        "EXPLAIN SELECT job_id FROM jobs WHERE job_id = 'a'", "EXPLAIN SYNTAX SELECT 1 + 1", "EXPLAIN AST SELECT 1",
        "EXPLAIN QUERY TREE SELECT 1 AS x", "EXPLAIN PIPELINE SELECT count() FROM numbers(3)", "EXPLAIN indexes = 1, json = 0 SELECT 1",
    ):  # fmt: skip
        yield Query("told of", sql, {})


def with_parameters() -> Iterator[Query]:
    """Parameters of each type that is allowed, and texts of every kind."""
    for text in AWKWARD:
        yield Query(
            "a text", "SELECT {x:String} AS x, length({x:String}) AS n, '%(x)s {x}' AS other", {"x": text}
        )
        yield Query("texts", "SELECT {x:Array(String)} AS x", {"x": [text, "a'b", text]})
    for kind, value in (
        ("Int64", -(2**63)), ("Int64", 7), ("UInt64", 2**64 - 1), ("Float64", 1.5), ("Float64", -1e300), ("Bool", True), ("Bool", False),
        ("Date", "2026-03-01"), ("DateTime", "2026-03-01 12:00:00"), ("DateTime64(3)", "2026-03-01 12:00:00.123"),
        ("Decimal(18, 9)", "1.000000001"), ("Array(Int64)", [1, -2]), ("Array(UInt64)", []), ("Array(Float64)", [0.5, 2.0]),
        ("Array(Bool)", [True, False]), ("Array(Date)", ["2026-03-01"]), ("Array(DateTime)", ["2026-03-01 12:00:00"]),
        ("Array(Decimal(9, 2))", [1.5, 2.25]),
    ):  # fmt: skip
        yield Query(kind, f"SELECT {{x:{kind}}} AS x, toTypeName(x) AS t", {"x": value})  # type: ignore[dict-item]  # lists of one type are lists of any
    sql = "SELECT job_id FROM job_costs WHERE job_id IN {jobs:Array(String)} AND cost_usd >= {least:Decimal(18, 9)} LIMIT {n:UInt64}"
    yield Query("in use", sql, {"jobs": ["a", ODD_ID], "least": "0", "n": 5})
    yield Query("in EXPLAIN", "EXPLAIN SELECT {x:String}", {"x": "a'b"})
    yield Query("in DESCRIBE", "DESCRIBE (SELECT {x:Int64} AS x)", {"x": 1})


def pages() -> Iterator[Query]:
    """Every query in the documentation; capitals stand for a name that the reader has."""
    for page in PAGES:
        for groups in _ON_A_PAGE.findall(page.read_text(encoding="utf-8")):
            sql = " ".join("".join(groups).split())
            if sql not in ("SELECT ...", "WITH FILL"):
                yield Query(page.name, sql, _bound(sql))


def dashboards() -> Iterator[Query]:
    """The panels, as Grafana's data source sends them."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        for target in targets(path):
            yield Query(target.panel, expanded(target.sql, T0_MS // 1000, AS_OF_MS // 1000, 60), {})


def alerts() -> Iterator[Query]:
    """What an alert gives as its evidence, for names that are hard to quote."""
    for job in ("b", ODD_ID, *AWKWARD[:12:2], AWKWARD[-1]):
        yield Query("evidence", evidence.burn_evidence(job, AS_OF_MS, 900_000, 2_500_000_000), {})
        yield Query("evidence", evidence.unpriced_evidence(job), {})


def code() -> Iterator[Query]:
    """What commands and the page ask; a worker that is asked for it answers it like a user's query."""
    modules = (queries, experiments, audit_sql, cli_jobs, explain_job, dead_letters, changes)
    for module in modules:
        for sql in _constants(module):
            yield Query(module.__name__, sql, _bound(sql))
    made = [
        *_lists(),
        *(made(table) for made in (audit_sql.days, audit_sql.suspected_twins, audit_sql.twins) for table in ("job_minutes", "node_minutes")),
        *(audit_sql.costs(table, current=current) for table in ("job_minutes", "node_minutes") for current in (True, False)),
        audit_sql.ledger("job_minutes", ("job_id", "minute", "price_effective"), ("quantity", "cost_usd")),
        "SELECT value FROM meta FINAL WHERE key = 'log'", "SELECT topic, partition, next_offset FROM books FINAL",
    ]  # fmt: skip
    for sql in made:
        yield Query("made", sql, _bound(sql))


def _lists() -> Iterator[str]:
    chosen = job_list_sql.JobSelection(("a", "n1"), "live", *("x",) * 5, True)
    for order in ("burn", "job", "cost", "use", "ratio"):
        for is_grouped in (False, True):
            for cursor in (None, "next", "previous"):
                yield job_list_sql.page(
                    chosen, order, ascending=is_grouped, is_grouped=is_grouped, cursor=cursor
                )
    yield from (
        job_list_sql.total(chosen),
        job_list_sql.sweeps(job_list_sql.JobSelection(("a",), "live")),
        job_list_sql.nodes(2),
    )


def _constants(module: ModuleType) -> list[str]:
    values: list[Any] = list(vars(module).values())
    return [value for value in values if isinstance(value, str) and _READS.match(value)]


def _bound(sql: str) -> dict[str, Parameter]:
    is_text = "{at0:String}" in sql
    at = dict.fromkeys(("at0", "at1", "at2"), "x" if is_text else "0.5")
    return {name: {**VALUES, **at}[name] for name in re.findall(r"\{(\w+):", sql)}
