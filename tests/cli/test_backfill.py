"""`trainfare backfill` as a user runs it: what it prints, refuses and takes back, and Slurm's history."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.backfill.logs import log_lines, write
from tests.cli.command import ROOT, Done, trainfare
from tests.collect.slurm.world import recorded
from tests.new_store import begun
from tests.store_process import StoreProcess

FAKE = ROOT / "tests" / "collect" / "slurm" / "fake.py"


def on(data: Path, *words: object, cwd: Path | None = None) -> Done:
    return trainfare("backfill", *words, "--data", data, cwd=cwd)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return begun(tmp_path / "data")


def test_it_says_what_it_metered_and_what_it_left_out(tmp_path: Path, data: Path) -> None:
    lines = log_lines(tmp_path, jobs=4, minutes=2, one_ends_of=2)
    log = write(tmp_path / "log.jsonl", [*lines, "bad"])
    done = on(data, log, "--format", "table")
    assert done.code == 0, done.err
    assert "not over in these files" in done.out
    assert "job-1, job-3" in done.out
    assert done.err.splitlines()[-2:] == [
        f"metering: {len(lines) - 3} of {len(lines) - 3}",
        "note: this is not in the audit trail: the log of the directory is open to its worker alone",
    ]
    again = json.loads(on(data, log).out)
    assert (again["backfill"], again["jobs"], again["dead_lettered"], again["rows_written"]) == (1, 2, 1, 0)
    assert again["reasons"][0]["names"] == ["job-1", "job-3"]
    listed = json.loads(on(data, "--list").out)
    assert [(row["backfill"], row["state"], row["lines"]) for row in listed] == [(1, "ended", len(lines) + 1)]
    costs = json.loads(trainfare("jobs", "--data", data, "--format", "json").out)
    assert {row["job_id"] for row in costs} == {"job-0", "job-2"}
    audit = trainfare("audit", "--data", data)
    assert audit.code == 0, audit.out
    assert "backfill/32769" in audit.out
    explained = trainfare("explain", "job-0", "--data", data)
    assert explained.code == 0, explained.err
    shown = trainfare("dead-letters", "show", "backfill/32769/0", "--data", data)
    assert shown.code == 0, shown.err
    assert f"{log}:{len(lines) + 1}" in shown.out
    undone = on(data, "--undo", 1)
    assert undone.code == 0, undone.err
    assert "backfill 1 is taken back" in undone.out
    assert json.loads(trainfare("jobs", "--data", data, "--format", "json").out) == []


def test_hours_without_a_price_are_said_with_what_gives_them_theirs(tmp_path: Path, data: Path) -> None:
    lines = log_lines(tmp_path, jobs=2, minutes=2)
    prices = [each for each in lines if each["topic"] == "prices"]
    log = write(tmp_path / "log.jsonl", [each for each in lines if each not in prices])
    done = on(data, log)
    hours = json.loads(done.out)["unpriced_gpu_hours"].rstrip("0")
    said = f"trainfare: {hours} GPU-hours have no price, {hours} of GPUs without a type: `trainfare prices load FILE --out prices.jsonl`, "
    assert f"{said}`trainfare backfill prices.jsonl --data {data}`, then this command again" in done.err
    assert on(data, write(tmp_path / "prices.jsonl", prices)).code == 0
    again = on(data, log)
    assert (json.loads(again.out)["unpriced_gpu_hours"], "no price" in again.err) == ("0.000000", False)
    assert float(json.loads(again.out)["usd"]) > 0


def test_on_a_server_it_is_metered_repeated_and_taken_back(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", log_lines(tmp_path, jobs=2, minutes=2, one_ends_of=1))
    with StoreProcess(tmp_path / "store") as server:
        env = {"TRAINFARE_CLICKHOUSE_URL": server.url}
        first = trainfare("backfill", log, env=env)
        assert first.code == 0, first.err
        found = json.loads(first.out)
        assert (found["jobs"], found["balanced"]) == (2, True)
        again = json.loads(trainfare("backfill", log, env=env).out)
        assert (again["backfill"], again["rows_written"], again["usd"]) == (1, 0, found["usd"])
        assert trainfare("audit", env=env).code == 0
        assert trainfare("backfill", "--undo", 1, env=env).code == 0
        assert json.loads(trainfare("jobs", "--format", "json", env=env).out) == []
        listed = json.loads(trainfare("backfill", "--list", "--format", "json", env=env).out)
        assert [row["state"] for row in listed] == ["taken back"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give files of events, or --list, or --undo N"),
        (("x.jsonl", "--list"), "give files of events, or --list, or --undo N"),
        (("--list", "--until", "2026-01-01"), "--until goes with files of events"),
        (("x.jsonl",), "no such file"),
        (("x.jsonl", "--since", "2026-01-01"), "--since goes with slurm"),
        (("slurm",), "slurm needs --since"),
        (("slurm", "--since", "yesterday"), "yesterday: no instant"),
        (("slurm", "--since", "2099-01-01"), "2099-01-01 is not before"),
        (("slurm", "--since", "2020-01-01"), "collect.toml"),
        (
            ("slurm", "--since", "2020-01-01", "--config", "slurm.toml", "--events", "e.jsonl"),
            "must end in .zst",
        ),
        (("--undo", "3"), "there is no backfill 3"),
    ],
)
def test_wrong_use_is_said_in_one_line(words: tuple[str, ...], said: str, data: Path, tmp_path: Path) -> None:
    (tmp_path / "slurm.toml").write_text("[slurm]\n")
    done = on(data, *words, cwd=tmp_path)
    assert done.code == 2
    assert said in done.one_line()


def test_a_file_named_twice_is_refused(tmp_path: Path, data: Path) -> None:
    log = write(tmp_path / "log.jsonl", log_lines(tmp_path, jobs=1, minutes=1))
    assert "named twice" in on(data, log, log).one_line()


def test_slurms_history_is_metered_and_resumed_from_its_file(tmp_path: Path, data: Path) -> None:
    last = recorded("22.05")[-1]
    (tmp_path / "answers.json").write_text(json.dumps(last))
    fake = [sys.executable, "-I", "-S", str(FAKE), str(tmp_path / "answers.json")]
    (tmp_path / "collect.toml").write_text(f"[slurm]\nsacct_command = {json.dumps([*fake, 'sacct'])}\n")
    begin_s = min(job["time"]["start"] for job in last["sacct"]["jobs"] if job["time"]["start"])
    span = ("--since", (begin_s - 60) * 1000, "--until", (int(last["time"]) + 60) * 1000)
    words = ("slurm", *span, "--events", tmp_path / "slurm.jsonl.zst")
    done = on(data, *words, cwd=tmp_path)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    ended = [
        job
        for job in last["sacct"]["jobs"]
        if job["time"]["end"] and job["time"]["end"] > job["time"]["start"] > 0
    ]
    assert ended
    assert found["jobs"] > 0
    assert found["balanced"]
    assert re.search(r"^read \d+: \d+ metered, \d+ free, 0 not understood$", done.err, re.MULTILINE)
    (tmp_path / "answers.json").unlink()
    again = on(data, *words, cwd=tmp_path)
    assert again.code == 0, again.err
    assert "sacct is not asked again; remove it to read anew, as after a change of collect.toml" in again.err
    assert json.loads(again.out)["gpu_hours"] == found["gpu_hours"]
