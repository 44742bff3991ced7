"""The trace command: deterministic logs, prices first, time in order, faults named on stderr."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.traces import main
from tests.loadtest.samples import DUTY, HELIOS, OPENB

Write = Callable[[str, str], Path]


def test_the_same_files_give_the_same_bytes(trace_file: Write, tmp_path: Path) -> None:
    source = str(trace_file("h.csv", HELIOS))
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        assert main(["helios", "--source", source, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_prices_come_first_and_events_in_order_of_time(trace_file: Write, tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    assert main(["openb", "--source", str(trace_file("o.csv", OPENB)), "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    topics = [line["topic"] for line in lines]
    assert topics == sorted(topics, key=lambda topic: topic != "prices")
    times = [line["value"]["time_ms"] for line in lines]
    assert times == sorted(times)


def test_a_price_that_takes_effect_after_the_trace_is_left_out(trace_file: Write, tmp_path: Path) -> None:
    prices = trace_file(
        "p.jsonl", '{"sku":"a","effective_ms":0}\n\n{"sku":"b","effective_ms":9999999999999}\n'
    )
    out = tmp_path / "o.jsonl"
    source = str(trace_file("h.csv", HELIOS))
    assert main(["helios", "--source", source, "--prices", str(prices), "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["value"]["sku"] for line in lines if line["topic"] == "prices"] == ["a"]


def test_samples_stand_between_their_jobs_events(trace_file: Write, tmp_path: Path) -> None:
    out, pairs = tmp_path / "g.jsonl.gz", tmp_path / "pairs.csv"
    duty, jobs = trace_file("d.csv", DUTY), trace_file("h.csv", HELIOS)
    words = [
        "gentd26",
        "--source",
        str(duty),
        "--helios",
        str(jobs),
        "--out",
        str(out),
        "--pairs",
        str(pairs),
    ]
    assert main(words) == 0
    topics = [json.loads(line)["topic"] for line in gzip.decompress(out.read_bytes()).splitlines()]
    assert [topic for topic in topics if topic != "prices"] == ["jobs", *["gpu"] * 252, "jobs"]
    assert pairs.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no column"),
        (HELIOS.replace(",7200,", ",soon,"), "whole number"),
        (HELIOS + "4,1\n", "cut short"),
    ],
)
def test_a_wrong_file_is_named_on_stderr(
    text: str, said: str, trace_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = trace_file("h.csv", text)
    assert main(["helios", "--source", str(source), "--out", str(tmp_path / "o.jsonl")]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert str(source) in told


def test_a_missing_file_and_a_broken_price_are_named(
    trace_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "o.jsonl")
    assert main(["helios", "--source", str(tmp_path / "none.csv"), "--out", out]) == 1
    assert "No such file" in capsys.readouterr().err
    source, prices = str(trace_file("h.csv", HELIOS)), str(trace_file("p.jsonl", "[1]\n"))
    assert main(["helios", "--source", source, "--prices", prices, "--out", out]) == 1
    assert "line 1: not a price record" in capsys.readouterr().err


def test_wrong_use_is_exit_2(trace_file: Write, tmp_path: Path) -> None:
    source = str(trace_file("h.csv", HELIOS))
    with pytest.raises(SystemExit, match="2"):
        main(["helios", "--source", source, "--out", str(tmp_path / "o.jsonl"), "--jobs", "0"])
