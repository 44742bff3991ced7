"""Which jobs are shown as one training run with a job."""

from __future__ import annotations

import pytest

from schemas.durations import DAY_MS, MINUTE_MS, NEVER_MS
from streams.engine.rules.lineage import RunSpan, jobs_of_run

Story = tuple[str, float, float, str]  # id, begin and end in minutes, how it ended


def shown(job_id: str, *jobs: Story, is_declared: bool = False) -> str:
    spans = [
        RunSpan(name, round(begin * MINUTE_MS), round(min(end * MINUTE_MS, NEVER_MS)), state)
        for name, begin, end, state in jobs
    ]
    return "".join(jobs_of_run(job_id, spans, is_declared=is_declared))


FAILED_TWICE = (("a", 0, 5, "failed"), ("b", 6, 9, "preempted"), ("c", 10, 30, "completed"))


@pytest.mark.parametrize("job_id", ["a", "b", "c"])
def test_a_job_goes_on_with_the_run_of_one_that_broke_off(job_id: str) -> None:
    assert shown(job_id, *FAILED_TWICE) == "abc"


def test_after_one_that_was_done_another_run_begins() -> None:
    assert shown("d", *FAILED_TWICE, ("d", 40, 50, "failed")) == "d"
    assert shown("a", ("a", 0, 5, "cancelled"), ("b", 6, 9, "failed")) == "a"
    assert shown("b", ("a", 0, 5, "failed"), ("b", 6 + DAY_MS / MINUTE_MS, 9999, "failed")) == "b"


def test_jobs_that_go_on_side_by_side_are_each_their_own() -> None:
    trials = (("a", 0, 5, "failed"), ("b", 3, 9, "failed"), ("c", 10, 12, "failed"), ("d", 13, 15, "failed"))
    assert [shown(name, *trials) for name in "abcd"] == ["a", "b", "cd", "cd"]
    assert shown("b", ("a", 0, 99, "running"), ("b", 3, 4, "failed"), ("c", 5, 6, "failed")) == "b"


def test_a_run_id_joins_what_goes_on_side_by_side_up_to_one_that_was_completed() -> None:
    jobs = (
        ("a", 0, 5, "cancelled"),
        ("b", 3, 20, "completed"),
        ("c", 10, 12, "failed"),
        ("d", 30, 40, "failed"),
    )
    assert [shown(name, *jobs, is_declared=True) for name in "abcd"] == ["abc", "abc", "abc", "d"]


def test_a_job_that_is_none_of_them_is_of_no_run() -> None:
    assert shown("x", *FAILED_TWICE) == ""


@pytest.mark.parametrize("is_declared", [False, True])
def test_where_no_job_was_known_yet_there_is_no_run(is_declared: bool) -> None:
    assert jobs_of_run("j", [], is_declared=is_declared) == []
