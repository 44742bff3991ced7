"""`trainfare audit` says in words and by its exit code whether the books balance and the ledger is right."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.cli import command
from tests.replay.logs import write_log
from tests.sinks.stores import embedded

trainfare = partial(command.trainfare, function="tests.cli.variants:impatient")


def test_a_replay_balances_until_a_row_is_changed(tmp_path: Path) -> None:
    log, data = write_log(tmp_path / "log.jsonl", jobs=3, minutes=2), tmp_path / "data"
    assert trainfare("replay", log, "--data", data).code == 0
    good = trainfare("audit", "--data", data)
    assert good.code == 0, good
    assert (
        "partition  records_in  applied  unattributed  duplicate  too_late  dead_lettered  balance\n"
        in good.out
    )
    assert good.out.endswith("\nbalanced\n")
    assert "FAIL" not in good.out
    assert "\x1b" not in good.out
    with embedded(data) as store:
        change = "INSERT INTO job_minutes SELECT * REPLACE(cost_usd + 1 AS cost_usd) FROM job_minutes FINAL LIMIT 1"
        store._connection.call(lambda client: client.command(change))
    bad = trainfare("audit", "--data", data)
    assert bad.code == 1
    assert bad.err == ""
    assert bad.out.endswith("\nNOT BALANCED\n")
    (line,) = (line for line in bad.out.splitlines() if line.startswith("FAIL  ledger_costs"))
    assert "1 of " in line
    assert "rows of `job_minutes` cost something other than quantity x price: job-" in line
    span = ("--recount", "2023-12-31", "2024-01-01")
    counted = trainfare("audit", "--data", data, *span, log, "--format", "json")
    assert counted.code == 1
    found = json.loads(counted.out)
    assert (found["ok"], found["rows_differ"], found["rows_missing"], found["rows_extra"]) == (False, 1, 0, 0)
    assert "is stored, the log says" in found["differences"][0]


def test_wrong_use_is_said_in_one_line(tmp_path: Path) -> None:
    both = trainfare("audit", "--data", tmp_path, "--url", "http://127.0.0.1:9")
    assert (both.code, both.one_line()) == (
        2,
        "trainfare: --url asks a worker, --data a directory; give one of them",
    )
    files = trainfare("audit", "log.jsonl", "--url", "http://127.0.0.1:9")
    assert (files.code, files.one_line()) == (2, "trainfare: files are read by --recount only")
    nobody = trainfare("audit", "--url", "http://127.0.0.1:9")
    assert nobody.code == 1
    assert "does not answer at http://127.0.0.1:9" in nobody.one_line()
