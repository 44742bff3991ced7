"""Backfills: the rows of a replay of the same events, however they are cut, killed, resumed and repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.backfill.backfill_process import backfill, killed, refused
from tests.backfill.logs import Line, in_time, log_lines, of_jobs, shuffled, write
from tests.replay.logs import BEGIN_MS
from tests.replay.replay_process import replay

#: Writes into the store behind which each run is killed: at its start, between rows, before and behind a snapshot.
PLACES = (1, 2, 3, 5, 7, 8, 9, 10, 11, 12)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return log_lines(tmp_path_factory.mktemp("lines"))


@pytest.fixture(scope="module")
def files(lines: list[Line], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return shuffled(tmp_path_factory.mktemp("files"), lines)


@pytest.fixture(scope="module")
def replayed(lines: list[Line], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a replay of the same events in the order of time stores."""
    folder = tmp_path_factory.mktemp("replayed")
    return replay([write(folder / "log.jsonl", lines)], folder / "data")


@pytest.fixture(scope="module")
def whole(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an uninterrupted backfill of the shuffled events stores."""
    return backfill(files, tmp_path_factory.mktemp("whole") / "data", events=200)


def test_its_rows_are_those_of_a_replay(
    lines: list[Line], replayed: dict[str, Any], whole: dict[str, Any]
) -> None:
    assert whole["tables"] == replayed["tables"]
    assert whole["balanced"]
    assert whole["faults"] == []
    assert whole["counts"]["lines"] == len(lines)
    assert whole["books"]["applied"] == len(lines) - 3  # prices
    assert whole["left_out"] == {}


def test_nothing_of_the_past_is_judged(whole: dict[str, Any]) -> None:
    assert (whole["alerts"], whole["burn_rates"]) == (0, 0)
    assert whole["accrued_ms"] is None  # budgets wait for no backfill


@pytest.mark.parametrize("events", [1_000_000, 37])
def test_how_it_is_cut_changes_nothing(
    files: list[Path], whole: dict[str, Any], tmp_path: Path, events: int
) -> None:
    assert backfill(files, tmp_path / "data", events=events)["tables"] == whole["tables"]


def test_killed_at_ten_places_in_a_row_it_resumes_to_the_same_rows(
    files: list[Path], whole: dict[str, Any], tmp_path: Path
) -> None:
    for writes in PLACES:
        killed(files, tmp_path / "data", writes, events=40)
    resumed = backfill(files, tmp_path / "data", events=40)
    assert resumed["tables"] == whole["tables"]
    assert resumed["books"] == whole["books"]
    assert resumed["balanced"]
    assert resumed["faults"] == []


@pytest.mark.parametrize("writes", [5, 19])
def test_killed_once_and_resumed_with_other_batches(
    files: list[Path], whole: dict[str, Any], tmp_path: Path, writes: int
) -> None:
    killed(files, tmp_path / "data", writes, events=150)
    resumed = backfill(
        files[::-1], tmp_path / "data", events=400
    )  # the order of the files is of no importance
    assert resumed["tables"] == whole["tables"]
    assert resumed["faults"] == []


def test_the_same_files_again_change_nothing(files: list[Path], tmp_path: Path) -> None:
    first = backfill(files, tmp_path / "data")
    again = backfill(files, tmp_path / "data", now_ms=1_900_000_000_000)
    assert again["number"] == first["number"]
    assert again["rows"] == 0
    assert again["tables"] == first["tables"]
    assert (again["books"], again["counts"]) == (first["books"], first["counts"])


def test_other_files_wait_for_the_end_of_those_that_were_begun(
    lines: list[Line], files: list[Path], tmp_path: Path
) -> None:
    killed(files, tmp_path / "data", 8, events=200)
    other = write(tmp_path / "other.jsonl", lines[:50])
    assert "backfill 1 of" in (said := refused([other], tmp_path / "data"))
    assert "has not ended" in said
    assert "--undo 1" in said


def test_what_the_live_meter_has_is_left_out_and_said(
    lines: list[Line], files: list[Path], replayed: dict[str, Any], tmp_path: Path
) -> None:
    live = [f"job-{number}" for number in range(5)]
    prices = [line for line in lines if line["topic"] == "prices"]
    replay([write(tmp_path / "live.jsonl", in_time([*prices, *of_jobs(lines, live)]))], tmp_path / "data")
    found = backfill(files, tmp_path / "data")
    left_out = found["left_out"]["metered by the live meter"]
    assert left_out["names"] == live
    assert left_out["events"] == len(of_jobs(lines, live))
    assert found["tables"] == replayed["tables"]  # each job once
    assert found["faults"] == []
    assert {job_id for job_id, shard in found["shards"].items() if shard < 32_768} == set(live)
    assert found["counts"]["prices_replaced"] == 0


def test_budgets_wait_for_the_live_shards_alone(lines: list[Line], files: list[Path], tmp_path: Path) -> None:
    live = write(tmp_path / "live.jsonl", of_jobs(lines, ["job-0", "job-1"]))
    replay([live], tmp_path / "data")
    asked = {"asked_ms": max(line["value"]["time_ms"] for line in lines) + 80_000}
    before = backfill([], tmp_path / "data", **asked)
    assert before["accrued_ms"]
    assert backfill(files, tmp_path / "data", **asked)["accrued_ms"] == before["accrued_ms"]


def test_a_second_backfill_that_overlaps_adds_what_the_first_lacks(
    lines: list[Line], whole: dict[str, Any], tmp_path: Path
) -> None:
    first = [f"job-{number}" for number in range(0, 12, 2)]
    nodes = {f"node-{job_id}" for job_id in first}
    part = [
        line
        for line in lines
        if line["topic"] == "prices"
        or line["value"].get("job_id") in first
        or line["value"].get("node") in nodes
    ]
    backfill([write(tmp_path / "first.jsonl", part)], tmp_path / "data")
    found = backfill([write(tmp_path / "all.jsonl", lines)], tmp_path / "data")
    assert found["number"] == 2
    assert found["left_out"]["metered by an earlier backfill"]["jobs"] == len(first)
    assert found["left_out"]["metered by an earlier backfill"]["nodes"] == len(first)
    assert found["tables"] == whole["tables"]
    assert found["faults"] == []


def test_a_job_that_is_not_over_is_left_whole_to_the_live_meter(lines: list[Line], tmp_path: Path) -> None:
    ends = ("completed", "failed")
    goes_on = [
        line
        for line in lines
        if not (line["value"].get("job_id") == "job-3" and line["value"].get("type") in ends)
    ]
    found = backfill([write(tmp_path / "log.jsonl", goes_on)], tmp_path / "data")
    assert found["left_out"]["not over in these files"]["names"] == ["job-3"]
    assert "job-3" not in found["shards"]
    assert found["balanced"]
    # With its end it is metered by another backfill.
    again = backfill([write(tmp_path / "whole.jsonl", lines)], tmp_path / "data")
    assert again["shards"]["job-3"] == 32_770
    assert again["faults"] == []


def test_jobs_with_events_at_or_after_until_are_left_out(lines: list[Line], tmp_path: Path) -> None:
    file = write(tmp_path / "log.jsonl", lines)
    end_ms = max(line["value"]["time_ms"] for line in lines)
    found = backfill([file], tmp_path / "data", until_ms=end_ms)  # the ends of all jobs
    assert found["left_out"]["events at or after --until"]["jobs"] == 12
    assert found["tables"]["job_minutes"] == []
    assert found["balanced"]
    assert found["tables"]["node_minutes"]  # paid up to the newest event before it
    later = backfill([file], tmp_path / "data")  # up to 24 h ago
    assert later["number"] == 2
    assert later["left_out"]["metered by an earlier backfill"]["jobs"] == 0
    assert len(later["tables"]["jobs"]) == 12
    assert later["faults"] == []


def test_what_the_live_meter_may_still_take_is_left_to_it(lines: list[Line], tmp_path: Path) -> None:
    file = write(tmp_path / "log.jsonl", lines)
    found = backfill([file], tmp_path / "data", now_ms=BEGIN_MS + 3_600_000)
    assert found["shards"] == {}
    assert found["left_out"]["events at or after --until"]["jobs"] == 12


def test_undo_leaves_nothing_and_lets_the_files_in_again(
    files: list[Path], whole: dict[str, Any], tmp_path: Path
) -> None:
    backfill(files, tmp_path / "data")
    gone = backfill([], tmp_path / "data", undo=1)
    assert {table: rows for table, rows in gone["tables"].items() if rows}.keys() <= {"prices"}
    assert gone["faults"] == []
    again = backfill(files, tmp_path / "data")
    assert again["number"] == 2
    assert again["tables"] == whole["tables"]
    assert again["faults"] == []


def test_another_cannot_be_taken_back_while_one_goes_on(
    lines: list[Line], files: list[Path], tmp_path: Path
) -> None:
    backfill([write(tmp_path / "first.jsonl", of_jobs(lines, ["job-0"]))], tmp_path / "data")
    killed(files, tmp_path / "data", 8, events=200)
    assert "backfill 2 of" in refused([], tmp_path / "data", undo=1)


def test_one_that_was_not_ended_can_be_taken_back(
    lines: list[Line], files: list[Path], tmp_path: Path
) -> None:
    killed(files, tmp_path / "data", 14, events=200)
    assert backfill([], tmp_path / "data", undo=1)["tables"]["job_minutes"] == []
    found = backfill([write(tmp_path / "log.jsonl", lines)], tmp_path / "data")
    assert found["faults"] == []
    assert len(found["shards"]) == 12
