"""`no_checkpoint`: time in which a job is suspended saves nothing, and loses nothing."""

from __future__ import annotations

import pytest

from schemas.durations import HOUR_MS
from schemas.events import JobEvent, JobType
from streams.engine.rules.no_checkpoint import ran_for_ms, usual_ms
from streams.engine.timeline.attempts import OPEN_MS, timelines

_LONGEST_MS = 6 * HOUR_MS


@pytest.mark.parametrize(
    ("running", "at_ms"),
    [
        ([(0, OPEN_MS)], 6 * HOUR_MS),
        ([(0, 4 * HOUR_MS), (20 * HOUR_MS, OPEN_MS)], 22 * HOUR_MS),
        ([(0, 4 * HOUR_MS), (20 * HOUR_MS, 22 * HOUR_MS)], None),
        ([(0, 6 * HOUR_MS)], None),
        ([], None),
    ],
)
def test_only_running_counts(running: list[tuple[int, int]], at_ms: int | None) -> None:
    assert ran_for_ms(running, _LONGEST_MS) == at_ms


def usual_hours(*attempts: str) -> float:
    """Of attempts of one event an hour: s(tart), c(heckpoint), h(eld), r(esumed), f(ailed); a space is an hour without one."""
    kinds = {"s": "started", "c": "checkpointed", "h": "suspended", "r": "resumed", "f": "failed"}
    events: dict[int, list[JobEvent]] = {}
    hour = 0
    for number, said in enumerate(attempts, 1):
        for each in said:
            if each in kinds:
                event = JobEvent("s", f"{hour}", hour * HOUR_MS, "j", number, JobType[kinds[each]])
                events.setdefault(number, []).append(event)
            hour += 1
    return usual_ms(timelines(events)) / HOUR_MS


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [
        (["s   "], 0),
        (["s  c"], 3),
        (["s  c c"], 2),  # of two the lesser
        (["s  c cc"], 2),
        (["sccc      c"], 1),  # one that came late
        (["s   c   c   c   c"], 4),
        (["s c c c c     c   c   "], 4),  # the last three
        (["s h r c"], 4),  # suspended for two of six hours
        (["s     cf", "s   f", "s     cf"], 6),  # attempts of one checkpoint each
        (["s     c c cf", "s    cf"], 2),
    ],
)
def test_usual_is_the_middle_of_the_last_three_times_of_running_before_a_checkpoint(
    attempts: list[str], hours: float
) -> None:
    assert usual_hours(*attempts) == hours
