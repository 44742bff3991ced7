"""`trainfare job` and `explain` name the dead letters of a job, also of one of which there is nothing else."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path

import pytest

from tests.cli.command import trainfare

T0 = 1_780_308_000_000
MINUTE = 60_000
HOSTILE = "a'b\\\"c é\u202e $(x)"


def job(name: str, number: int, **more: object) -> dict[str, object]:
    return {"id": f"{name}{number}", "source": "s", "time_ms": T0 + number * MINUTE, "job_id": name, **more}


def line(value: object, topic: str = "jobs") -> str:
    return json.dumps({"topic": topic, "value": value})


def enveloped(**inner: object) -> dict[str, object]:
    return {"specversion": "1.0", "type": "io.trainfare.jobs", "id": "e", "source": "s", **inner}


WRONG = {"type": "scaled", "gpu_count": "two"}
LINES = [
    line(job("whole", 0, type="started", gpu_count=2)),
    line(job("part", 0, type="started", gpu_count=2)),
    line(job("part", 1, **WRONG)),
    line(job("part", 2, type="no such type")),
    line({**job("part", 3, **WRONG), "labels": {"job_id": "labelled"}}),
    line(job("none", 4, **WRONG)),
    line(enveloped(data=job("none", 5, **WRONG))),
    line(enveloped(data_base64=base64.b64encode(json.dumps(job("none", 6, **WRONG)).encode()).decode())),
    json.dumps({"topic": "jbos", "value": job("none", 7)}),
    line(job("none", 8, **WRONG))[:-3],
    line(job(HOSTILE, 9, **WRONG)),
    line(job(HOSTILE, 10, **WRONG))[:-3],
    line(job("none-2", 11, **WRONG)),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("of job")
    (root / "log.jsonl").write_text("\n".join(LINES) + "\n")
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1")
    assert done.code == 0, done.err
    return root / "meter"


def test_of_a_job_with_some_they_are_shown_with_the_command(data: Path) -> None:
    done = trainfare("job", "part", "--data", data)
    assert (done.code, done.err) == (0, "")
    assert "refused 3 records that name this job (2 wrong_type, 1 unknown_type)" in done.out
    assert "\nDead letters\n" in done.out
    answer = json.loads(trainfare("job", "part", "--data", data, "--format", "json").out)
    assert {(each["topic"], each["reason"], each["records"]) for each in answer["dead_letters"]} == {
        ("jobs", "wrong_type", 2),
        ("jobs", "unknown_type", 1),
    }
    done = trainfare("job", "part", "--data", data, "--format", "csv")
    assert "refused 3 records" in done.err
    assert "refused" not in done.out


def test_the_command_that_is_named_shows_them(data: Path) -> None:
    said = trainfare("job", "part", "--data", data).out
    words = shlex.split(said.split("`")[1])
    assert words[0] == "trainfare"
    rows = json.loads(trainfare(*words[1:], "--format", "json").out)
    assert [row["place"] for row in rows] == ["jobs/0/2", "jobs/0/3", "jobs/0/4"]
    grouped = json.loads(
        trainfare("dead-letters", "list", "--job", "part", "--data", data, "--format", "json").out
    )
    assert {(row["reason"], row["records"], row["stored"]) for row in grouped} == {
        ("wrong_type", None, 2),
        ("unknown_type", None, 1),
    }


def test_of_a_job_without_any_nothing_is_said(data: Path) -> None:
    for command in ("job", "explain"):
        done = trainfare(command, "whole", "--data", data)
        assert (done.code, done.err) == (0, "")
        assert "refused" not in done.out
    assert json.loads(trainfare("job", "whole", "--data", data, "-f", "json").out)["dead_letters"] == []


@pytest.mark.parametrize("command", ["job", "explain"])
@pytest.mark.parametrize(("name", "count"), [("none", 5), (HOSTILE, 2)])
def test_of_a_job_of_which_there_is_nothing_else(data: Path, command: str, name: str, count: int) -> None:
    done = trainfare(command, name, "--data", data)
    assert done.code == 1
    said = done.one_line()
    assert f"not in this store, but the meter refused {count} records that name this job" in said
    assert "trainfare dead-letters list --each --job" in said
    assert "\u202e" not in said


@pytest.mark.parametrize("command", ["job", "explain"])
@pytest.mark.parametrize("name", ["labelled", "non", "absent", "%", "' OR 1"])
def test_a_job_without_any_is_unknown_as_before(data: Path, command: str, name: str) -> None:
    said = trainfare(command, name, "--data", data).one_line()
    assert "`trainfare jobs` lists what is" in said
    assert "refused" not in said


def test_explain_says_it_in_each_form(data: Path) -> None:
    assert "refused 3 records" in trainfare("explain", "part", "--data", data).out
    answer = json.loads(trainfare("explain", "part", "--data", data, "-f", "json").out)
    assert sum(each["records"] for each in answer["dead_letters"]) == 3
    done = trainfare("explain", "part", "--data", data, "-f", "csv")
    assert "refused 3 records" in done.err


def test_an_empty_job_is_no_filter(data: Path) -> None:
    done = trainfare("dead-letters", "list", "--job", "", "--data", data)
    assert done.code == 2
    assert "--job" in done.one_line()
