"""`trainfare backtest` as a user runs it: what it shows, what it refuses, and that nothing is left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, Done, trainfare

STORIES = ROOT / "examples" / "stories"
HEAD = "job_id,kind,from_ms,until_ms\n"


def backtest(tmp_path: Path, *words: object) -> Done:
    """Run it with a directory of its own for what is temporary, which must be empty afterwards."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    done = trainfare("backtest", *words, env={"TMPDIR": str(temporary)})
    assert list(temporary.iterdir()) == []
    return done


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    file = tmp_path / "labels.csv"
    file.write_text(HEAD + "llama-sft,retry,1780301220000,1780306800000\n")
    return file


def test_a_log_with_labels_as_json(labels: Path, tmp_path: Path) -> None:
    done = backtest(tmp_path, STORIES / "retry-loop.jsonl", "--labels", labels)
    assert (done.code, done.err) == (0, "")
    (found,) = json.loads(done.out)
    rule = found["by_rule"][0]
    assert (found["rules"], found["jobs"], found["pages"], found["tickets"]) == (None, 2, 1, 0)
    assert (rule["rule"], rule["severity"], rule["precision"], rule["messages"]) == (
        "retry_loop",
        "page",
        1.0,
        1,
    )
    assert rule["first"][0]["started_ms"] == 1_780_302_180_000
    assert rule["first"][0]["summary"].startswith("llama-sft failed 3 times in 16 min")
    kinds: dict[str, dict[str, Any]] = {each["caught_by"]: each for each in found["by_kind"]}
    assert kinds["any rule"] == kinds["retry_loop"] | {"caught_by": "any rule"}
    # From the first failure at 08:07 to the third at 08:23: two attempts of 7 min with 16 GPUs at $2.49.
    assert kinds["any page"]["delay_median_ms"] == 16 * 60_000
    assert float(kinds["any page"]["cost_median_usd"]) == pytest.approx(16 * 2.49 * 14 / 60)
    assert found["without_label"]["pages"] == 0


def test_files_that_are_no_log(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text("dear diary\n[]\n")
    done = backtest(tmp_path, file)
    assert done.code == 2
    assert f"{file}: no line is a record of a log; the first one: line: " in done.one_line()
    file.write_text((STORIES / "retry-loop.jsonl").read_text().splitlines()[0] + "\n")
    done = backtest(tmp_path, file)
    assert done.code == 2
    assert f"{file}: speaks of no job, so nothing can be judged" in done.one_line()


@pytest.mark.parametrize("option", ["", "--labels"])
def test_files_that_are_not_there(option: str, tmp_path: Path) -> None:
    words = [option] if option else []
    log = [STORIES / "retry-loop.jsonl"] if option else []
    done = backtest(tmp_path, *log, *words, tmp_path / "none")
    assert done.code == 2
    assert f"{tmp_path / 'none'}: no such file" in done.one_line()


def test_a_label_of_a_job_that_the_log_lacks(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(HEAD + "llama-sft,x,1,2\nllama,x,1,2\n")
    done = backtest(tmp_path, STORIES / "retry-loop.jsonl", "--labels", file)
    assert done.code == 2
    assert f"{file}: the log speaks of no job 'llama' (1 such labelled jobs)" in done.one_line()


def test_two_files_of_rules_side_by_side(labels: Path, tmp_path: Path) -> None:
    off, soon = tmp_path / "off.toml", tmp_path / "soon.toml"
    off.write_text('[[rule]]\nname = "retry_loop"\nenabled = false\n')
    soon.write_text(
        '[[rule]]\nname = "retry_loop"\nseverity = "ticket"\nthresholds = {failures = 2, page_usd_per_hour = 1e6}\n'
    )
    log = STORIES / "retry-loop.jsonl"
    done = backtest(
        tmp_path,
        log,
        "--rules",
        off,
        "--rules",
        soon,
        "--labels",
        labels,
        "--format",
        "table",
        "--first",
        "0",
    )
    assert (done.code, done.err) == (0, "")
    summary, rules, kinds = (
        [line.split() for line in block.splitlines()] for block in done.out.split("\n\n")
    )
    assert [row[0] for row in summary] == ["rules", str(off), str(off), str(soon), str(soon)]
    # The records come before the log, so they hold from its first line on: the second failure is at 08:15.
    assert [row[:4] for row in rules[1:] if row[1] == "retry_loop"] == [
        [str(soon), "retry_loop", "ticket", "1"]
    ]
    caught = {(row[0], row[1], " ".join(row[2:4])): row[4:] for row in kinds[1:] if row[2] == "any"}
    # `retry_overhead` finds it too, at the end of the hour.
    assert caught[str(off), "retry", "any rule"][:3] == ["1", "100.0%", "53.0"]
    assert caught[str(soon), "retry", "any rule"][:3] == ["1", "100.0%", "8.0"]
    assert caught[str(soon), "retry", "any page"] == ["1", "0.0%"]


def test_a_file_of_rules_with_a_fault(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "retry_lop"\n')
    done = backtest(tmp_path, STORIES / "retry-loop.jsonl", "--rules", rules)
    assert done.code == 2
    assert f"{rules} line 1: " in done.one_line()


def test_a_rule_by_sql_that_fails_is_in_the_result(tmp_path: Path) -> None:
    sql = "SELECT 'team' AS subject_kind, '' AS subject_name, 1 AS usd_per_hour, 'x; do y' AS summary FROM jobs WHERE {from} < {to}"
    fields = {"source": "t", "id": "1", "time_ms": 1_780_300_800_000, "kind": "rule", "every": "1h"}
    lines = [
        json.dumps({"topic": "controls", "value": {**fields, "name": name, "sql": text}})
        for name, text in (("typo", sql.replace("'' AS", "teem AS")), ("empty", sql))
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines) + (STORIES / "retry-loop.jsonl").read_text())
    done = backtest(tmp_path, log)
    (found,) = json.loads(done.out)
    empty, typo = found["failed_rules"]
    assert (empty["rule"], typo["rule"]) == ("sql/empty", "sql/typo")
    assert "2 x a subject_name that is no text of 1 to 256 characters" in empty["reason"]
    assert "Unknown expression identifier `teem`" in typo["reason"]
    assert typo["times"] > 0
    shown = backtest(tmp_path, log, "--format", "table")
    assert "rule by SQL that failed" in shown.out
    rules = tmp_path / "rules.toml"
    misspelt = sql.replace("'' AS", "teem AS")
    rules.write_text(f'[[rule]]\nname = "typo"\nevery = "1h"\nsql = "{misspelt}"\n')
    refused = backtest(tmp_path, STORIES / "retry-loop.jsonl", "--rules", rules)
    assert refused.code == 2
    assert f"{rules} line 1: rule/typo: sql: Unknown expression identifier `teem`" in refused.err
