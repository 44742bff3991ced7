"""What months of past hold: prices of their time, bad lines, archived jobs, boundaries, and what comes later live."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.backfill.backfill_process import backfill, killed
from tests.backfill.logs import Line, event, in_time, log_lines, shuffled, write
from tests.oracle.compute import compute
from tests.oracle.model import Line as OracleLine
from tests.oracle.model import Tables
from tests.replay.logs import BEGIN_MS
from tests.replay.replay_process import replay

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
#: 2024-01-01 00:00 UTC is 5:20 h after BEGIN_MS: a year, month, day and hour begin.
MIDNIGHT_MS = 1_704_067_200_000


def price(number: int, usd: str, effective_ms: int = BEGIN_MS, **value: Any) -> Line:
    fields = {"sku": "h100", "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": effective_ms}
    return event("prices", number, BEGIN_MS + number, **{**fields, **value})


def run(number: int, start_ms: int, end_ms: int, **value: Any) -> list[Line]:
    name = {"job_id": f"run-{number}"}
    return [
        event("jobs", 2 * number, start_ms, type="started", gpu_count=8, **name, **value),
        event("jobs", 2 * number + 1, end_ms, type="completed", **name),
    ]


def oracle(lines: list[Line]) -> Tables:
    return compute([OracleLine(line["topic"], line["value"]) for line in in_time(lines)])


def ledger(found: dict[str, Any]) -> dict[tuple[Any, ...], int]:
    """Nano-dollars of each row of `job_minutes`."""
    return {
        (row["minute"], row["job_id"], row["attempt"], row["node"], row["component"], row["phase"]): round(
            float(row["cost_usd"]) * 1e9
        )
        for row in found["tables"]["job_minutes"]
    }


def cost_nano(found: dict[str, Any]) -> int:
    return sum(ledger(found).values())


def nano_by_job(found: dict[str, Any]) -> dict[str, int]:
    by_job: dict[str, int] = {}
    for (_, job_id, *_), nano in ledger(found).items():
        by_job[job_id] = by_job.get(job_id, 0) + nano
    return by_job


def usd_by_job(found: dict[str, Any]) -> dict[str, float]:
    """Without the rounding of the rows."""
    return {job_id: round(nano / 1e9, 6) for job_id, nano in nano_by_job(found).items()}


def test_half_a_year_of_jobs_equals_the_oracle(tmp_path: Path) -> None:
    rng = random.Random(22)
    lines = [price(900_001, "2.5"), price(900_002, "3.1", BEGIN_MS + 60 * DAY_MS)]
    for number in range(240):  # two days apart at most: all but the last leave memory for the archive
        start_ms = BEGIN_MS + rng.randrange(180 * DAY_MS)
        lines += run(number, start_ms, start_ms + rng.randrange(3 * HOUR_MS), owner=f"o{number % 7}")
    # An amount and a new owner long after the end: the job comes back from the archive.
    for number in range(0, 240, 5):
        end_ms = lines[2 + 2 * number + 1]["value"]["time_ms"]
        lines.append(
            event(
                "jobs",
                10_000 + number,
                end_ms + 20 * DAY_MS,
                type="updated",
                owner="new",
                job_id=f"run-{number}",
            )
        )
    files = shuffled(tmp_path, lines, files=3)
    for writes in (4, 7):
        killed(files, tmp_path / "data", writes, events=40)
    found = backfill(files, tmp_path / "data", events=40)
    want = oracle(lines)
    assert len(found["tables"]["job_minutes"]) == len(want.ledger)
    assert cost_nano(found) == sum(row.cost_nano for row in want.ledger.values())
    wanted: dict[str, int] = {}
    for key, row in want.ledger.items():
        wanted[key.job_id] = wanted.get(key.job_id, 0) + row.cost_nano
    assert nano_by_job(found) == wanted
    assert {row["job_id"]: row["owner"] for row in found["tables"]["jobs"]} == {
        job_id: row.owner for job_id, row in want.jobs.items()
    }
    assert found["faults"] == []
    assert found["balanced"]
    assert found["books"]["too_late"] == 0


@pytest.mark.parametrize("around_ms", [MIDNIGHT_MS, MIDNIGHT_MS - HOUR_MS, BEGIN_MS + 60_000])
def test_jobs_across_a_year_a_day_an_hour_and_a_minute(tmp_path: Path, around_ms: int) -> None:
    lines = [price(900_001, "2.5"), price(900_002, "7.7", around_ms)]
    for number, (before_ms, after_ms) in enumerate(
        [(1, 1), (60_001, 59_999), (1, 0), (0, 1), (7_200_000, 1)]
    ):
        lines += run(number, around_ms - before_ms, around_ms + after_ms)
    found, want = backfill(shuffled(tmp_path, lines), tmp_path / "data"), oracle(lines)
    assert cost_nano(found) == sum(row.cost_nano for row in want.ledger.values())
    assert len(found["tables"]["job_minutes"]) == len(want.ledger)
    assert found["faults"] == []


def test_the_stores_price_stands_and_a_new_one_is_stored(tmp_path: Path) -> None:
    stored = [price(900_001, "2"), *run(50, BEGIN_MS, BEGIN_MS + HOUR_MS)]
    replay([write(tmp_path / "live.jsonl", stored)], tmp_path / "data")
    lines = [
        price(900_002, "99"),  # of the same time
        price(900_003, "4", BEGIN_MS + DAY_MS),
        *run(1, BEGIN_MS, BEGIN_MS + HOUR_MS),
        *run(2, BEGIN_MS + DAY_MS, BEGIN_MS + DAY_MS + HOUR_MS),
    ]
    found = backfill([write(tmp_path / "past.jsonl", lines)], tmp_path / "data")
    assert (found["counts"]["prices"], found["counts"]["prices_replaced"]) == (2, 1)
    assert usd_by_job(found) == {"run-1": 16, "run-2": 32, "run-50": 16}
    assert [row["usd"] for row in found["tables"]["prices"]] == ["2.000000000", "4.000000000"]
    assert found["faults"] == []


def test_run_again_it_takes_up_prices_that_came_later(tmp_path: Path) -> None:
    past = write(tmp_path / "past.jsonl", run(1, BEGIN_MS, BEGIN_MS + HOUR_MS))
    assert cost_nano(backfill([past], tmp_path / "data")) == 0
    others = [price(900_001, "2"), *run(50, BEGIN_MS, BEGIN_MS + HOUR_MS)]
    replay([write(tmp_path / "live.jsonl", others)], tmp_path / "data")
    found = backfill([past], tmp_path / "data")
    assert found["number"] == 1
    assert usd_by_job(found) == {"run-1": 16, "run-50": 16}
    assert found["faults"] == []


@pytest.mark.parametrize(
    "writes", [pytest.param(1, marks=pytest.mark.long), 3, pytest.param(5, marks=pytest.mark.long)]
)
def test_killed_while_it_takes_them_up_it_goes_on(tmp_path: Path, writes: int) -> None:
    jobs = [line for number in range(6) for line in run(number, BEGIN_MS, BEGIN_MS + HOUR_MS)]
    node = event("nodes", 90, BEGIN_MS, node="n", type="provisioned", gpu_count=1)
    past = write(tmp_path / "past.jsonl", [*jobs, node])
    backfill([past], tmp_path / "data")
    others = [price(900_001, "2"), *run(50, BEGIN_MS, BEGIN_MS + HOUR_MS)]
    replay([write(tmp_path / "live.jsonl", others)], tmp_path / "data")
    killed([past], tmp_path / "data", writes)
    found = backfill([past], tmp_path / "data")
    assert usd_by_job(found) == dict.fromkeys([f"run-{number}" for number in (*range(6), 50)], 16)
    assert found["number"] == 1
    assert found["faults"] == []


def test_bad_lines_are_dead_letters_with_their_file_and_line(tmp_path: Path) -> None:
    lines = run(1, BEGIN_MS, BEGIN_MS + HOUR_MS)
    bad = write(
        tmp_path / "bad.jsonl",
        [
            lines[0],
            "{this is no JSON",
            "",
            event("jobs", 77, BEGIN_MS, type="flies", job_id="run-1"),
            event("moons", 78, BEGIN_MS),
            event("controls", 79, BEGIN_MS, kind="owner", name="ann", webhook="https://example.org/x"),
        ],
    )
    good = write(tmp_path / "good.jsonl", [lines[1], event("jobs", 80, BEGIN_MS, type="started")])
    killed([bad, good], tmp_path / "data", 3)
    found = backfill([bad, good], tmp_path / "data")
    letters = found["tables"]["dead_letters"]
    assert [(row["topic"], row["partition"], row["offset"]) for row in letters] == [
        ("backfill", 32_769, number) for number in range(4)
    ]
    said = {row["detail"].split(": ")[0]: row["reason"] for row in letters}
    assert said == {
        f"{bad}:2": "malformed_json",
        f"{bad}:4": "unknown_type",
        f"{bad}:5": "unknown_topic",
        f"{good}:2": "missing_field",
    }
    assert found["counts"]["refused"]["reasons"] == dict.fromkeys(said.values(), 1)
    assert found["counts"]["controls"] == 1
    assert found["counts"]["lines"] == 7
    assert found["balanced"]
    assert found["faults"] == []


def test_duplicates_count_once(tmp_path: Path) -> None:
    lines = log_lines(tmp_path, jobs=3, minutes=2)
    want = backfill([write(tmp_path / "once.jsonl", lines)], tmp_path / "one")
    found = backfill([write(tmp_path / "twice.jsonl", [*lines, *lines])], tmp_path / "two")
    assert found["tables"] == want["tables"]
    assert found["books"]["duplicate"] > 0
    assert found["balanced"]
    assert found["faults"] == []


def test_a_live_event_that_comes_later_adds_nothing_to_the_past(tmp_path: Path) -> None:
    past = [price(900_001, "2"), *run(1, BEGIN_MS, BEGIN_MS + HOUR_MS, owner="ann")]
    before = backfill([write(tmp_path / "past.jsonl", past)], tmp_path / "data")
    later_ms = BEGIN_MS + 30 * DAY_MS
    live = [
        event("jobs", 500, later_ms, type="updated", owner="ben", job_id="run-1"),
        *run(2, later_ms, later_ms + HOUR_MS),
    ]
    replay([write(tmp_path / "live.jsonl", live)], tmp_path / "data")
    found = backfill([write(tmp_path / "past.jsonl", past)], tmp_path / "data")
    mine = {key: nano for key, nano in ledger(found).items() if key[1] == "run-1"}
    assert mine == ledger(before)
    assert {row["job_id"]: row["owner"] for row in found["tables"]["jobs"]}["run-1"] == "ben"  # the live row
    assert found["faults"] == []


def test_nodes_that_the_live_meter_has_in_that_time_are_left_out(tmp_path: Path) -> None:
    node = {"node": "n1", "type": "provisioned", "gpu_count": 8}
    live = [
        price(900_001, "2"),
        event("nodes", 1, BEGIN_MS + DAY_MS, **node),
        *run(9, BEGIN_MS, BEGIN_MS + 2 * DAY_MS),
    ]
    replay([write(tmp_path / "live.jsonl", live)], tmp_path / "data")
    past = [event("nodes", 2, BEGIN_MS, **node), *run(1, BEGIN_MS, BEGIN_MS + 2 * DAY_MS)]
    found = backfill([write(tmp_path / "past.jsonl", past)], tmp_path / "data")
    assert found["left_out"]["metered by the live meter"]["nodes"] == 1
    # Up to where the live meter has it, its past can be taken.
    short = [event("nodes", 3, BEGIN_MS, **node), *run(2, BEGIN_MS, BEGIN_MS + HOUR_MS)]
    found = backfill([write(tmp_path / "short.jsonl", short)], tmp_path / "data")
    assert found["left_out"] == {}
    assert found["faults"] == []
    assert sum(
        row["quantity"] for row in found["tables"]["node_minutes"] if row["minute"] < "2023-12-31T08"
    ) == (8_000 * HOUR_MS)
