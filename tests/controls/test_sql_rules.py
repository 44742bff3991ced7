"""Rules by SQL are checked before they are published: what a worker would refuse is refused with what mends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.events import ControlEvent
from sinks.clickhouse import empty_tables
from sinks.errors import QueriesOff, QueryFailed, QueryRefused
from sinks.query import QueryLimits, QueryProcess
from sinks.query.wire import KnownTables
from sinks.target import Embedded, Server, query_source
from streams.controls.sql_rules import SqlRuleFaults, sql_rule_faults
from streams.engine.ledger_rules.own_rule_findings import answer_faults
from tests.cli.command import trainfare
from tests.new_store import begun

NOWHERE = Server(url="http://127.0.0.1:9")
GOOD = (
    "SELECT 'job' AS subject_kind, job_id AS subject_name, sum(cost_usd) AS usd_per_hour, 'x; do y' AS summary"
    " FROM cost_hours WHERE hour >= {from} AND hour < {to} GROUP BY job_id"
)
REFUSED = {
    "SELECT * FROM url('http://x', 'CSV', 'a String') WHERE {from} < {to}": "the table function `url` is not allowed",
    "SELECT * FROM cost_hour WHERE hour >= {from} AND hour < {to}": "`cost_hour` is no table of this store",
    "SELEC {from} {to}": "Syntax error: failed at position",
    "DROP TABLE jobs /* {from} {to} */": "only reading is allowed",
    "SELECT sleep(3) FROM jobs WHERE {from} < {to}": "the function `sleep` is not allowed",
    "SELECT 1 FROM jobs WHERE {from} < {to}; SELECT 2": "one statement",
    GOOD.replace("job_id AS", "teem AS"): "Unknown expression identifier `teem`. Maybe you meant: ['team']",
    GOOD.replace("'x; do y' AS summary", "7 AS summary"): "summary is of the type UInt8, expected String",
    GOOD.replace("sum(cost_usd) AS", "'much' AS"): "usd_per_hour is of the type String, expected a number",
    GOOD.replace(
        "AS subject_name", "AS subject_nam, job_id AS subject_name"
    ): "a column subject_nam, expected",
    GOOD.replace(
        "sum(cost_usd)", "sum(job_id)"
    ): "Illegal type String of argument for aggregate function sum",
    "SHOW TABLES /* {from} {to} */": "no column subject_kind",
}


def rule(sql: str, name: str = "mine", kind: str = "rule", **more: Any) -> ControlEvent:
    value = {"sql": sql, "every": "1h", **more}
    return ControlEvent(source="t", id="1", time_ms=1, kind=kind, name=name, value=value)


def faults(*rules: ControlEvent) -> SqlRuleFaults:
    lines = ((each, lambda detail, each=each: f"{each.name}: {detail}") for each in rules)
    return sql_rule_faults(lines, NOWHERE)


def test_what_the_guard_refuses_is_said_with_what_to_do() -> None:
    found = faults(rule(GOOD), *(rule(sql, f"r{number}") for number, sql in enumerate(REFUSED)))
    assert found.note == ""
    lines = [
        next(line for line in found.faults if line.startswith(f"r{number}: "))
        for number in range(len(REFUSED))
    ]
    for number, (line, words) in enumerate(zip(lines, REFUSED.values(), strict=True)):
        assert line.startswith(f"r{number}: sql: ")
        assert words in line
        assert line.endswith("; try it with `trainfare sql`")
        assert len(line) < 500


def test_no_process_is_started_for_other_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(_: str) -> KnownTables:
        raise AssertionError

    monkeypatch.setattr(empty_tables, "empty_tables", known)
    off, bad = rule("SELEC {from} {to}", enabled=False), rule("no span")
    assert faults(rule(GOOD, kind="silence"), off, bad) == SqlRuleFaults([])


def test_where_nothing_can_check_them_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(*_: object) -> None:
        raise QueriesOff("the engine is not installed")

    monkeypatch.setattr(QueryProcess, "check", off)
    note = "tables and columns of rules by SQL were not checked, and a worker may refuse them: the engine is not installed"
    many = "SELECT * FROM (SELECT COLUMNS('subject') FROM alerts) WHERE {from} < {to}"
    assert faults(rule(GOOD), rule(many)) == SqlRuleFaults([], note)
    lacking = rule(GOOD.replace("'x; do y' AS summary", "1 AS summary_of_it"))
    found = faults(lacking)
    assert found.note == note
    assert [line.split(",")[0] for line in found.faults] == ["mine: sql: summary is not in it"]


def test_every_column_that_is_missing_is_named() -> None:
    found = faults(rule("SELECT 'job' AS subject_kind, job_id FROM jobs WHERE {from} < {to}"))
    assert [line.split(",")[0] for line in found.faults] == [
        *(
            f"mine: sql: the answer has no column {name}"
            for name in ("subject_name", "usd_per_hour", "summary")
        ),
        "mine: sql: the answer has a column job_id",
    ]


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("String", "summary"), ("LowCardinality(Nullable(String))", "summary"), ("Enum8('a' = 1)", "summary"),
        ("Decimal(18, 9)", "usd_per_hour"), ("Nullable(Float64)", "usd_per_hour"), ("Nullable(Nothing)", "usd_per_hour"),
        ("UInt256", "usd_per_hour"), ("Bool", ""), ("Array(String)", ""), ("DateTime", ""),
    ],
)  # fmt: skip
def test_which_types_say_something(kind: str, fits: str) -> None:
    types = {"subject_kind": "String", "subject_name": "String", "usd_per_hour": "UInt8", "summary": "String"}
    for name in ("usd_per_hour", "summary"):
        found = answer_faults({**types, name: kind})
        assert found == [] if name == fits else [each.split()[0] for each in found] == [name], (kind, name)


def test_a_server_that_is_away_is_asked_first_and_the_tables_of_this_version_then() -> None:
    away = Server(url="http://127.0.0.1:9", reader_user="reader")
    found = sql_rule_faults([(rule(sql), str) for sql in (GOOD, "SELEC {from} {to}")], away)
    assert (len(found.faults), found.note) == (1, "")


def test_a_store_checks_a_statement_without_running_it(tmp_path: Path) -> None:
    process = QueryProcess(query_source(Embedded(data_dir=begun(tmp_path / "data"))), QueryLimits())
    try:
        assert process.check("SELECT throwIf(1) AS x, (SELECT throwIf(1) FROM jobs) AS y FROM jobs") == {
            "x": "UInt8",
            "y": "Nullable(UInt8)",
        }
        with pytest.raises(QueryRefused, match="no table of this store"):
            process.check("SELECT 1 FROM nowhere")
        with pytest.raises(QueryFailed, match="Syntax error"):
            process.check("SELEC 1")
    finally:
        process.close()


def test_what_has_no_store_runs_nothing() -> None:
    create = ["CREATE TABLE jobs (job_id String) ENGINE = Memory"]
    process = QueryProcess(KnownTables({"jobs": False}, "trainfare", create), QueryLimits())
    try:
        assert process.check("SELECT count() AS n, any(job_id) AS one FROM jobs") == {
            "n": "UInt64",
            "one": "String",
        }
        with pytest.raises(QueryRefused, match="statements are checked, not run"):
            process.ask("SELECT 1", {}, "json")
    finally:
        process.close()


def test_publish_and_apply_refuse_it_with_its_place(tmp_path: Path) -> None:
    bad = "SELECT * FROM file('/etc/passwd') WHERE {from} < {to}"
    fields = {"source": "t", "id": "1", "time_ms": 1_780_308_000_000, "kind": "rule", "name": "mine"}
    log, folder = tmp_path / "log.jsonl", tmp_path / "controls"
    log.write_text(json.dumps({"topic": "controls", "value": {**fields, "sql": bad, "every": "1h"}}) + "\n")
    folder.mkdir()
    (folder / "rules.toml").write_text(f'[[rule]]\nname = "mine"\nevery = "1h"\nsql = "{bad}"\n')
    said = "rule/mine: sql: the table function `file` is not allowed: a query reads tables of this store; try it with"
    for words, where in (
        (("publish", log), f"{log} line 1: the control would have no effect: "),
        (("apply", folder), f"{folder}/rules.toml line 4: "),
        (("rules", "check", folder / "rules.toml"), f"{folder}/rules.toml line 1: "),
        (("rules", "publish", folder / "rules.toml"), f"{folder}/rules.toml line 1: "),
    ):
        done = trainfare(*words)
        assert (done.code, done.out) == (2, ""), words
        assert where + said in done.err
