"""Timelines by the contract's table: states, held GPUs, supersession, carried values, lost work."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import JobEvent, JobType
from streams.engine.timeline.attempts import (
    OPEN_MS,
    PAID_AT_MOST_MS,
    Segment,
    Timeline,
    timelines,
    wall_clock_ms,
)
from streams.engine.timeline.values import Values


def event(kind: str, time_ms: int, attempt: int = 1, **named: Any) -> JobEvent:
    """A lifecycle event; its id is its kind and time."""
    return JobEvent("s", f"{kind}{time_ms}", time_ms, "j", attempt, JobType[kind], **named)


def lines_of(*events: JobEvent) -> dict[int, Timeline]:
    by_attempt: dict[int, list[JobEvent]] = {}
    for one in events:
        by_attempt.setdefault(one.attempt, []).append(one)
    return timelines(by_attempt)


def phases(line: Timeline) -> list[tuple[int, int, str]]:
    return [(s.start_ms, s.end_ms, s.phase) for s in line.segments]


def test_queued_is_free_allocated_starts_started_runs() -> None:
    line = lines_of(event("queued", 0), event("allocated", 10), event("started", 20), event("completed", 30))[
        1
    ]
    assert phases(line) == [(10, 20, "starting"), (20, 30, "running")]
    assert (line.state, line.started_ms, line.ended_ms) == ("completed", 10, 30)


@pytest.mark.parametrize(
    ("holds", "paid"), [(False, [(0, 10, "running")]), (True, [(0, 10, "running"), (10, 30, "suspended")])]
)
def test_suspended_releases_unless_it_holds(holds: bool, paid: list[tuple[int, int, str]]) -> None:
    line = lines_of(event("started", 0), event("suspended", 10, holds_gpus=holds), event("completed", 30))[1]
    assert phases(line) == paid


def test_queued_after_started_means_what_the_table_says() -> None:
    line = lines_of(event("started", 0), event("queued", 10), event("resumed", 20), event("failed", 30))[1]
    assert phases(line) == [(0, 10, "running"), (20, 30, "running")]


def test_scaled_while_suspended_only_changes_the_count_for_later() -> None:
    line = lines_of(
        event("started", 0, gpu_milli=1000),
        event("suspended", 10),
        event("scaled", 20, gpu_milli=8000),
        event("resumed", 30),
        event("completed", 40),
    )[1]
    assert [(s.start_ms, s.values.gpu_milli) for s in line.segments] == [(0, 1000), (30, 8000)]


def test_events_of_one_instant_are_taken_in_the_order_of_the_types() -> None:
    line = lines_of(event("completed", 5), event("started", 5), event("allocated", 5))[1]
    assert line.segments == ()
    assert line.state == "completed"


def test_what_is_after_the_first_ending_event_changes_nothing() -> None:
    line = lines_of(event("started", 0), event("failed", 10), event("completed", 20), event("started", 30))[1]
    assert (line.state, line.ended_ms, line.after_end) == ("failed", 10, 2)


def test_attempt_without_end_is_superseded_by_the_first_start_of_any_later_attempt() -> None:
    found = lines_of(
        event("started", 0),
        event("queued", 5, attempt=2),
        event("started", 50, attempt=2),
        event("allocated", 40, attempt=3),
        event("completed", 60, attempt=3),
    )
    assert [(line.state, line.ended_ms) for line in found.values()] == [
        ("superseded", 40),
        ("superseded", 40),
        ("completed", 60),
    ]
    assert found[2].segments == ()


def test_attempts_that_overlap_by_their_own_events_are_both_paid_but_counted_once_on_the_clock() -> None:
    found = lines_of(
        event("started", 0),
        event("failed", 100),
        event("started", 50, attempt=2),
        event("completed", 150, attempt=2),
    )
    assert phases(found[1]) == [(0, 100, "running")]
    assert phases(found[2]) == [(50, 150, "running")]
    assert wall_clock_ms(found, 10**6) == {1: 100, 2: 50}


def test_later_attempt_begins_with_the_last_values_those_after_the_end_not() -> None:
    found = lines_of(
        event("started", 0, gpu_milli=1000, fields={"region": "eu"}),
        event("failed", 10, gpu_milli=2000),
        event("updated", 20, gpu_milli=9000),
        event("started", 30, attempt=2),
    )
    assert found[2].segments == (
        Segment(
            30, OPEN_MS, "running", Values(2000, fields=(None, "eu", None, None, None, None, None, None))
        ),
    )


def test_count_without_nodes_keeps_them_only_if_it_is_their_sum() -> None:
    line = lines_of(
        event("started", 0, nodes={"b": 500, "a": 1000}),
        event("scaled", 10, gpu_milli=1500),
        event("scaled", 20, gpu_milli=2000),
        event("completed", 30),
    )[1]
    assert [(s.start_ms, s.values.gpu_milli, s.values.nodes) for s in line.segments] == [
        (0, 1500, (("a", 1000), ("b", 500))),
        (20, 2000, None),
    ]


def test_attempt_that_goes_on_is_paid_up_to_the_clock_and_one_that_ended_is_not_cut() -> None:
    open_accruals = lines_of(event("started", 0), event("scaled", 50, gpu_milli=1000))[1]
    assert [(s.start_ms, s.end_ms) for s in open_accruals.paid(30)] == [(0, 30)]
    assert [(s.start_ms, s.end_ms) for s in open_accruals.paid(70)] == [(0, 50), (50, 70)]
    ended = lines_of(event("started", 0), event("completed", 50))[1]
    assert [(s.start_ms, s.end_ms) for s in ended.paid(30)] == [(0, 50)]


def test_attempt_is_paid_for_400_days_at_most() -> None:
    line = lines_of(event("started", 5), event("completed", 2 * PAID_AT_MOST_MS))[1]
    assert [(s.start_ms, s.end_ms) for s in line.paid(10**15)] == [(5, 5 + PAID_AT_MOST_MS)]


def test_heartbeat_does_not_cut_a_segment() -> None:
    line = lines_of(
        event("started", 0), event("heartbeat", 10), event("checkpointed", 20), event("completed", 30)
    )[1]
    assert phases(line) == [(0, 30, "running")]


def test_lost_since_the_last_checkpoint_of_an_attempt_that_broke_off_and_the_start_up_of_retries() -> None:
    found = lines_of(
        event("started", 0),
        event("checkpointed", 10),
        event("checkpointed", 20),
        event("preempted", 30),
        event("allocated", 40, attempt=2),
        event("started", 55, attempt=2),
        event("failed", 60, attempt=2),
        event("allocated", 70, attempt=3),
        event("started", 75, attempt=3),
        event("completed", 99, attempt=3),
    )
    assert [line.lost for line in found.values()] == [((20, 30),), ((40, 60),), ((70, 75),)]


def test_superseded_attempt_loses_its_work_since_its_last_checkpoint_for_an_unknown_reason() -> None:
    found = lines_of(
        event("started", 0),
        event("checkpointed", 10),
        event("checkpointed", 50),  # after the next attempt began
        event("started", 40, attempt=2),
        event("started", 60, attempt=3),
        event("completed", 70, attempt=3),
    )
    assert [line.lost for line in found.values()] == [((10, 40),), ((40, 60),), ()]
    assert [line.reason for line in found.values()] == ["unknown", "unknown", ""]


def test_metered_attempt_has_no_timeline() -> None:
    line = lines_of(event("queued", 0, gpu_milli=1000), event("heartbeat", 10), event("failed", 20))[1]
    assert line.metered
    assert line.segments == ()
    assert line.lost == ()
