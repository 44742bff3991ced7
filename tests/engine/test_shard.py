"""A shard and its log: trimmed, refused, late, archived, restored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from schemas.tables import ARCHIVE, DEAD_LETTERS, JOB_MINUTES
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from tests.engine.stepping import LogHoleError, step

T0 = 1_704_067_200_000
HOUR_MS = 3_600_000


def shard() -> Shard:
    return Shard(3, ShardSettings(), PriceBook.empty())


def records(events: Sequence[dict[str, object] | bytes], first: int = 0) -> list[LogRecord]:
    values = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in events]
    return [LogRecord(first + i, T0 + 48 * HOUR_MS, value) for i, value in enumerate(values)]


def batch(*events: dict[str, object] | bytes, first: int = 0, topic: str = "jobs") -> LogBatch:
    return LogBatch(topic, 3, first, first + len(events), records(events, first))


def event(kind: str, after_ms: int = 0, job_id: str = "j", **named: object) -> dict[str, object]:
    return {
        "source": "s",
        "id": f"{kind}{after_ms}{job_id}",
        "time_ms": T0 + after_ms,
        "job_id": job_id,
        "type": kind,
    } | named


def test_batch_above_next_is_a_hole_and_is_not_folded() -> None:
    one = shard()
    assert one.fold(batch(event("started"))) is None
    assert one.fold(batch(event("completed", 5), first=2)) == 1
    assert one.position.next == {"jobs": 1}
    assert one.books.records_in == 1


def test_step_says_which_records_are_missing() -> None:
    with pytest.raises(LogHoleError, match=r"jobs\[3\]: records 0 to 6 are missing") as hole:
        step(shard(), [batch(event("started"), first=7)], PriceBook.empty(), lambda _: {}, T0, [1])
    assert hole.value.refetch_at == 0


def test_what_is_below_next_is_trimmed_and_counted() -> None:
    one = shard()
    events = [event("started"), event("heartbeat", 1), event("completed", 2)]
    one.fold(batch(*events[:2]))
    one.fold(batch(*events))
    assert (one.books.records_in, one.books.applied, one.books.trimmed) == (3, 3, 2)
    assert one.position.next == {"jobs": 3}


def test_interval_without_records_moves_next() -> None:
    one = shard()
    assert one.fold(LogBatch("jobs", 3, 0, 10, records([event("started")], first=4))) is None
    assert one.position.next == {"jobs": 10}


def test_each_record_is_counted_once_and_a_refused_one_is_kept_with_its_reason() -> None:
    one = shard()
    late = event("heartbeat", -25 * HOUR_MS)
    one.fold(
        batch(
            event("started"), event("started"), b"not json", late, event("nonsense"), b"x" * (1 << 20) + b"x"
        )
    )
    books = one.books
    assert books.balanced
    assert (books.records_in, books.applied, books.duplicate, books.too_late, books.dead_lettered) == (
        6,
        1,
        1,
        1,
        3,
    )
    letters = one.checkpoint(T0, 1, open_attempts=True).tables[DEAD_LETTERS].to_pylist()
    assert [(row["offset"], row["reason"]) for row in letters] == [
        (2, "malformed_json"),
        (3, "too_late"),
        (4, "unknown_type"),
        (5, "oversize"),
    ]
    assert len(letters[3]["raw"]) == 64 * 1024
    assert letters[0]["raw"] == b"not json"
    assert all(row["detail"] for row in letters)


def test_checkpoint_takes_only_a_version_above_the_last() -> None:
    one = shard()
    one.checkpoint(T0, 5, open_attempts=True)
    with pytest.raises(ValueError, match="version 5 of shard 3 is not above its last, 5"):
        one.checkpoint(T0, 5, open_attempts=True)


def test_nothing_is_unsaved_after_a_checkpoint_until_time_or_the_log_goes_on() -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1)))
    assert one.unsaved(T0 + 1, open_attempts=False)
    one.checkpoint(T0 + 60_000, 1, open_attempts=True)
    assert not one.unsaved(T0 + 60_000, open_attempts=True)
    assert one.unsaved(T0 + 120_000, open_attempts=True)
    assert not one.unsaved(T0 + 120_000, open_attempts=False)
    one.fold(LogBatch("jobs", 3, 1, 2, []))
    assert one.unsaved(T0 + 60_000, open_attempts=False)


def test_paid_time_that_a_later_event_takes_away_is_zeroed_when_open_attempts_are_due() -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1)))
    one.checkpoint(T0 + 30_000, 1, open_attempts=True)
    one.fold(batch(event("suspended", holds_gpus=False), first=1))
    assert JOB_MINUTES not in one.checkpoint(T0 + 30_000, 2, open_attempts=False).tables
    assert one.unsaved(T0 + 30_000, open_attempts=True)
    rows = one.checkpoint(T0 + 30_000, 3, open_attempts=True).tables[JOB_MINUTES].to_pylist()
    assert [(row["phase"], row["quantity"]) for row in rows] == [("running", 0)]


def test_rows_of_a_job_that_goes_on_are_not_written_again_for_its_clocks_alone_before_open_attempts_are_due() -> (
    None
):
    one = shard()
    one.fold(batch(event("started", gpu_count=1, owner="ann")))
    assert {"jobs", "attempts"} <= one.checkpoint(T0 + 1_000, 1, open_attempts=False).tables.keys()
    one.fold(batch(event("heartbeat", 2_000), first=1))
    transfer = {
        **event("", 3_000),
        "interval_ms": 1_000,
        "bytes": 10**9,
        "path": "internet",
        "direction": "egress",
    }
    one.fold(batch({k: v for k, v in transfer.items() if k != "type"}, topic="network"))
    assert one.books.dead_lettered == 0
    heard = one.checkpoint(T0 + 4_000, 2, open_attempts=False).tables
    assert not {"jobs", "attempts"} & heard.keys()
    assert [row["component"] for row in heard[JOB_MINUTES].to_pylist()] == ["network"]  # money does not wait
    assert one.unsaved(T0 + 4_000, open_attempts=True)
    (row,) = one.checkpoint(T0 + 4_000, 3, open_attempts=True).tables["jobs"].to_pylist()
    assert row["last_event"].timestamp() * 1000 == T0 + 3_000
    assert row["wall_clock_ms"] == 4_000


@pytest.mark.parametrize(
    ("kind", "named", "field", "value"),
    [
        ("updated", {"owner": "bob"}, "owner", "bob"),
        ("scaled", {"gpu_count": 4}, "gpu_count", 4),
        ("suspended", {}, "state", "suspended"),
        ("completed", {}, "state", "completed"),
        ("heartbeat", {"team": "ml"}, "team", "ml"),
    ],
)
def test_row_of_a_job_that_says_something_else_is_written_at_once(
    kind: str, named: dict[str, Any], field: str, value: object
) -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1, owner="ann")))
    one.checkpoint(T0 + 1_000, 1, open_attempts=False)
    one.fold(batch(event(kind, 2_000, **named), first=1))
    (row,) = one.checkpoint(T0 + 3_000, 2, open_attempts=False).tables["jobs"].to_pylist()
    assert row[field] == value


def test_attempt_known_by_its_traffic_is_metered_until_it_is_queued() -> None:
    # Seed 2698 of the simulator: the two timelines are equal, what is said of them is not.
    one = shard()
    transfer = event("", 1_000, interval_ms=1_000, bytes=10**9, path="internet", direction="egress")
    del transfer["type"]
    one.fold(batch(transfer, topic="network"))
    (row,) = one.checkpoint(T0 + 2_000, 1, open_attempts=True).tables["attempts"].to_pylist()
    assert row["state"] == "metered"
    one.fold(batch(event("queued", 3_000)))
    (row,) = one.checkpoint(T0 + 4_000, 2, open_attempts=False).tables["attempts"].to_pylist()
    assert row["state"] == "queued"


def test_large_checkpoint_is_cut_and_says_that_more_is_left() -> None:
    one = Shard(3, ShardSettings(rows_per_checkpoint=10), PriceBook.empty())
    jobs = [
        event(kind, at, f"j{n}", gpu_count=1)
        for n in range(3)
        for kind, at in (("started", 0), ("completed", HOUR_MS))
    ]
    one.fold(batch(*jobs))
    points = [one.checkpoint(T0 + HOUR_MS, version, open_attempts=True) for version in (1, 2, 3)]
    assert [point.more for point in points] == [True, True, False]
    assert [point.tables[JOB_MINUTES].num_rows for point in points] == [60, 60, 60]


def test_finished_job_leaves_memory_for_the_archive_and_comes_back_with_a_late_event() -> None:
    one = shard()
    one.fold(
        batch(event("started", gpu_count=2), event("completed", HOUR_MS), event("started", 30 * HOUR_MS, "k"))
    )
    first = one.checkpoint(T0, 1, open_attempts=True)
    assert first.tables[ARCHIVE]["job_id"].to_pylist() == ["j"]
    assert list(one.jobs) == ["k"]
    news = batch(event("updated", 30 * HOUR_MS, owner="ann"), first=3)
    assert one.missing(news) == {"j": 1}
    one.adopt({"j": first.tables[ARCHIVE]["blob"][0].as_py()})
    assert one.missing(news) == {}
    one.fold(news)
    second = one.checkpoint(T0, 2, open_attempts=True)
    assert second.tables["jobs"].to_pylist()[0]["owner"] == "ann"
    assert JOB_MINUTES not in second.tables  # what was booked is still right
    assert one.books.applied == 4


def test_state_that_was_fetched_before_the_job_came_back_and_left_again_is_not_adopted() -> None:
    one = shard()
    one.fold(batch(event("started"), event("completed", 1), event("started", 30 * HOUR_MS, "k")))
    old = one.checkpoint(T0, 1, open_attempts=True).tables[ARCHIVE]["blob"][0].as_py()
    one.adopt({"j": old})
    one.fold(
        batch(event("updated", 7 * HOUR_MS, owner="ann"), event("heartbeat", 47 * HOUR_MS, "k"), first=3)
    )
    new = one.checkpoint(T0, 2, open_attempts=True).tables[ARCHIVE]["blob"][0].as_py()
    one.adopt({"j": old})
    assert one.absent(["j"]) == {"j": 2}
    one.adopt({"j": new})
    assert one.jobs["j"].dimensions().owner == "ann"


def test_empty_price_field_of_a_sample_is_a_value_and_not_an_absent_one() -> None:
    sample = {
        "source": "s",
        "time_ms": T0 + 10_000,
        "interval_ms": 10_000,
        "node": "n",
        "gpus": ["0"],
        "util_ratio": [1],
    }
    one = shard()
    one.fold(batch({**sample, "job_id": "named", "cloud": ""}, {**sample, "job_id": "silent"}, topic="gpu"))
    fields = {
        name: one.jobs[name].attempts[1].winners[T0 // 60_000].price_fields[0] for name in ("named", "silent")
    }
    assert fields == {"named": "", "silent": None}


def test_event_that_an_archived_job_had_before_is_a_duplicate() -> None:
    one = shard()
    one.fold(batch(event("started"), event("completed", 1), event("started", 30 * HOUR_MS, "k")))
    first = one.checkpoint(T0, 1, open_attempts=True)
    again = batch(event("updated", 30 * HOUR_MS), event("updated", 30 * HOUR_MS), first=3)
    one.adopt({"j": first.tables[ARCHIVE]["blob"][0].as_py()})
    one.fold(again)
    assert (one.books.applied, one.books.duplicate) == (4, 1)
