"""Rules by SQL are checked before they are published: what a worker would refuse is refused with what mends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.events import ControlEvent
from sinks.errors import QueriesOff, QueryFailed, QueryRefused
from sinks.query import QueryLimits, QueryProcess
from sinks.query.wire import KnownTables
from sinks.target import Embedded, Server, query_source
from streams.controls import sql_rules
from streams.controls.sql_rules import SqlRuleFaults, sql_rule_faults
from tests.cli.command import trainfare
from tests.new_store import begun

NOWHERE = Server(url="http://127.0.0.1:9")
GOOD = "SELECT 'job' AS subject_kind, job_id AS subject_name FROM cost_hours WHERE hour >= {from} AND hour < {to}"
REFUSED = {
    "SELECT * FROM url('http://x', 'CSV', 'a String') WHERE {from} < {to}": "the table function `url` is not allowed",
    "SELECT * FROM cost_hour WHERE hour >= {from} AND hour < {to}": "`cost_hour` is no table of this store",
    "SELEC {from} {to}": "Syntax error: failed at position",
    "DROP TABLE jobs /* {from} {to} */": "only reading is allowed",
    "SELECT sleep(3) FROM jobs WHERE {from} < {to}": "the function `sleep` is not allowed",
    "SELECT 1 FROM jobs WHERE {from} < {to}; SELECT 2": "one statement",
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
    assert len(found.faults) == len(REFUSED)
    for number, (line, words) in enumerate(zip(found.faults, REFUSED.values(), strict=True)):
        assert line.startswith(f"r{number}: sql: ")
        assert words in line
        assert line.endswith("; try it with `trainfare sql`")
        assert len(line) < 500


def test_no_process_is_started_for_other_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    def known() -> dict[str, bool]:
        raise AssertionError

    monkeypatch.setattr(sql_rules, "_known_tables", known)
    off, bad = rule("SELEC {from} {to}", enabled=False), rule("no span")
    assert faults(rule(GOOD, kind="silence"), off, bad) == SqlRuleFaults([])


def test_where_nothing_can_check_them_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(*_: object) -> None:
        raise QueriesOff("the engine is not installed")

    monkeypatch.setattr(QueryProcess, "check", off)
    assert faults(rule(GOOD)) == SqlRuleFaults(
        [], "rules by SQL were not checked, and a worker may refuse them: the engine is not installed"
    )


def test_a_server_that_is_away_is_asked_first_and_the_tables_of_this_version_then() -> None:
    away = Server(url="http://127.0.0.1:9", reader_user="reader")
    found = sql_rule_faults([(rule(sql), str) for sql in (GOOD, "SELEC {from} {to}")], away)
    assert (len(found.faults), found.note) == (1, "")


def test_a_store_checks_a_statement_without_running_it(tmp_path: Path) -> None:
    process = QueryProcess(query_source(Embedded(data_dir=begun(tmp_path / "data"))), QueryLimits())
    try:
        process.check("SELECT throwIf(1) FROM jobs")
        with pytest.raises(QueryRefused, match="no table of this store"):
            process.check("SELECT 1 FROM nowhere")
        with pytest.raises(QueryFailed, match="Syntax error"):
            process.check("SELEC 1")
    finally:
        process.close()


def test_what_has_no_store_runs_nothing() -> None:
    process = QueryProcess(KnownTables({"jobs": False}, "trainfare"), QueryLimits())
    try:
        process.check("SELECT count() FROM jobs")
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
