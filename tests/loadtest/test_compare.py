"""`make bench-check`: what is slower is found, what is noise in one yardstick is not; the planted slow-down slows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from loadtest import compare, slowed
from loadtest.catch_up_figures import line_of, round_of, stored_of, summary
from loadtest.fleet import workload
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard

FOLDED_US = 4.0


def results(
    us: float = FOLDED_US, pace: float = 250_000.0, count_us: float = 1.4, count_pace: float = 900_000.0
) -> dict[str, Any]:
    """Three rounds as a run writes them, of a worker that takes `us` a message."""
    rounds = [
        {
            "cpu_us_per_message": us * noise,
            "pace_per_s": pace * noise,
            "samples_per_s": 8 * pace,
            "cpu_s_per_million_samples": us / 8,
            "rss_peak_mib": 500.0,
        }
        for noise in (1.0, 1.3, 0.99)
    ]
    limits = [
        {"cpu_us_per_message": count_us, "decode_us_per_message": 0.6, "pace_per_s": count_pace}
        for _ in rounds
    ]
    return {"machine": {"cores": 2}, "scenarios": {"w2": summary(rounds, limits)}}


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Compares two results; returns the exit code."""

    def run(then: dict[str, Any], now: dict[str, Any]) -> int:
        for name, body in (("then", then), ("now", now)):
            (tmp_path / f"{name}.json").write_text(json.dumps(body))
        reference = ["--reference", str(tmp_path / "reference.json")]
        assert compare.main([str(tmp_path / "then.json"), "--accept", *reference]) == 0
        return compare.main([str(tmp_path / "now.json"), *reference])

    return run


def test_the_same_is_not_slower(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert files(results(), results()) == 0
    assert "SLOWER" not in capsys.readouterr().out


def test_more_cpu_a_message_is_slower_and_said(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert files(results(), results(us=FOLDED_US * 1.2)) == 1
    said = capsys.readouterr().out
    assert "SLOWER: w2, CPU a message: 17% below" in said
    assert "w2, pace" not in said


def test_a_little_more_is_within_the_noise(files: Any) -> None:
    assert files(results(), results(us=FOLDED_US * 1.1, pace=230_000)) == 0


def test_a_sleep_costs_no_cpu_and_is_found_by_the_pace(
    files: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files(results(), results(pace=200_000)) == 1
    assert "SLOWER: w2, pace: 20% below" in capsys.readouterr().out


def test_faster_is_never_slower(files: Any) -> None:
    assert files(results(), results(us=FOLDED_US / 2, pace=500_000)) == 0


def test_one_yardstick_that_ran_fast_says_nothing_of_the_meter(files: Any) -> None:
    assert files(results(), results(count_us=1.0, count_pace=1_200_000.0)) == 0


def test_a_reference_without_a_newer_ratio_still_judges(files: Any) -> None:
    then = results()
    del then["scenarios"]["w2"]["ratios"]["pace_vs_decode"]
    assert files(then, results()) == 0
    assert files(then, results(pace=200_000)) == 1


def test_nothing_in_common_is_a_fault(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    other = results()
    other["scenarios"]["w1"] = other["scenarios"].pop("w2")
    assert files(results(), other) == 1
    assert "the reference has w2, the results have w1" in capsys.readouterr().err


def test_the_committed_reference_can_be_compared_with() -> None:
    reference = json.loads(compare.REFERENCE.read_text())
    assert "check" in reference["scenarios"]
    assert not any(each.fell for each in compare.judge(reference, reference))


def test_the_planted_slow_down_slows_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setitem(slowed.KINDS, "sleep", slept.append)
    monkeypatch.setattr(Shard, "fold", Shard.fold)
    slowed.slow_down("sleep", 20.0)
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    assert shard.fold(LogBatch("gpu", 0, 0, 0, [])) is None
    assert shard.position.next == {"gpu": 0}
    assert slept == [0.0]


def stored(at_s: float, gpu: int, folded_s: float) -> dict[str, Any]:
    folded = {"at_s": folded_s, "cpu_s": 0.0, "delay_s": 1.0, "load": 0.0}
    records = {"gpu": gpu}
    now = {"at_s": at_s, "cpu_s": at_s / 2, "minor_faults": 1_000 * int(at_s), "load": 1.0}
    return {"stored": {**now, "records": records, "folded": folded}}


def test_a_round_lasts_from_the_first_fold_to_the_flight_with_the_last_message() -> None:
    known = workload("quick", 1_772_366_400, 8).known
    known.messages = 100
    known.samples[0, 0] = 800
    part = {"count": 1, "wall_s": 2.0, "cpu_s": 1.0}
    lines = [
        {"first": {"at_s": 10.0, "cpu_s": 5.0, "delay_s": 0.5, "minor_faults": 9_000, "load": 0.0}},
        stored(11.0, 60, 10.9),
        stored(12.0, 100, 11.5),
        stored(13.0, 100, 11.5),
        {"parts": {"insert": part}, "rss_peak_mib": 300.0, "rows": {"job_minutes": 40}},
    ]
    found = round_of(lines, known, {"gpu": 100})
    assert (found["wall_s"], found["cpu_s"], found["start_cpu_s"]) == (2.0, 1.0, 5.0)
    assert found["messages_per_s"] == 50
    assert found["pace_per_s"] == 100  # a second and a half, half a second of it without a core
    assert found["cpu_us_per_message"] == 10_000
    assert found["rows_per_s_inserted"] == 20
    assert found["minor_faults_per_million_messages"] == 3_000 * 10_000


def test_a_flight_counts_when_it_has_every_topic() -> None:
    lines = [stored(1.0, 100, 1.0)]
    assert not stored_of(lines[0], {"gpu": 100, "jobs": 2})
    assert stored_of(lines[0], {"gpu": 100, "jobs": 0})
    assert line_of([], {"gpu": 1}) is None
    assert line_of(lines, {"gpu": 200}) is lines[0]
