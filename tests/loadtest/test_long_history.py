"""The logs of a long history are what they say they are, and the benchmark replays and measures them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest import long_history
from loadtest.long_history import LOGS, History, write_log
from schemas.decode import decode
from schemas.durations import DAY_MS
from schemas.invalid import Invalid

NEWEST_MS = 1_772_366_400_000
SMALL = History(3, 4, 6, 40)


def lines(path: Path, history: History) -> list[dict[str, Any]]:
    assert write_log(path, history) > 0
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_line_is_taken_and_both_orders_have_the_same_events(tmp_path: Path) -> None:
    first = lines(tmp_path / "a", SMALL)
    between = lines(tmp_path / "b", History(3, 4, 6, 40, prices_first=False))
    for line in first:
        found = decode(line["topic"], json.dumps(line["value"]).encode(), (), NEWEST_MS)
        assert not isinstance(found, Invalid), found
    assert [each["topic"] for each in first[:40]] == ["prices"] * 40
    times = [each["value"]["time_ms"] for each in between]
    assert times == sorted(times)

    def content(found: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps({**each["value"], "id": ""}, sort_keys=True) for each in found)

    assert content(first) == content(between)
    assert len({each["value"]["id"] for each in first}) == len(first)


def test_a_log_twice_as_large_has_twice_the_events(tmp_path: Path) -> None:
    for history, _ in LOGS.values():
        once, twice = (write_log(tmp_path / "log", history.times(size)) for size in (0.5, 1))
        assert 1.9 < twice / once < 2.1


def test_the_decade_is_over_before_events_are_refused_as_of_the_future(tmp_path: Path) -> None:
    history, _ = LOGS["decade"]
    last = max(each["value"]["time_ms"] for each in lines(tmp_path / "log", history.times(2)))
    assert last - history.begin_ms > 3_650 * DAY_MS


def test_it_replays_and_prints_cpu_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(LOGS, "small", (SMALL, 20))
    out = tmp_path / "figures.json"
    assert long_history.main(["small", "--sizes", "1", "2", "--out", str(out)]) == 0
    (row, _) = json.loads(out.read_text(encoding="utf-8"))["logs"]["small"]
    assert row["cpu_s"] > 0
    assert float(row["usd"]) > 0
    assert row["rows"] > 1_000
    said = capsys.readouterr()
    assert "small x1: " in said.out + said.err
    assert "small x1 to x2: " in said.out + said.err


def test_an_unknown_log_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        long_history.main(["years"])
    assert "no such log: years; there are prices-first" in capsys.readouterr().err
