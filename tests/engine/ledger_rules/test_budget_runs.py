"""Which jobs a budget per run counts together at each minute, and that this does not depend on how many are looked at at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.durations import HOUR_MS, MINUTE_MS, NEVER_MS
from streams.engine.alerts.budgets import Budget, Limits
from streams.engine.ledger_rules.budget_runs import BudgetJob, Spell, spells
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.ledger_rules.subject import Run
from streams.engine.rules.lineage import RunJob
from streams.engine.rules.run_losses import AttemptLoss

EACH = Budget("each", {"team": "vision"}, "run", Limits(usd_nano=10**9))
M = MINUTE_MS


def job(
    job_id: str,
    *attempts: tuple[float, float | None, str],
    budget: dict[str, str] | None = None,
    is_live: bool = True,
    team: str = "vision",
    **said: Any,
) -> BudgetJob:
    """A job by the minutes of its attempts: when each begins and ends (None: it goes on), and how."""
    known = [
        AttemptLoss(int(a * M), NEVER_MS if b is None else int(b * M), state) for a, b, state in attempts
    ]
    about = RunJob(job_id, owner="ada", team=team, **said)
    last_ms = max((each.ended_ms for each in known), default=NEVER_MS)
    run = Run(job_id, "ada", team, state=attempts[-1][2] if attempts else "queued")
    run = Run(**{**vars(run), "ended_ms": None if last_ms == NEVER_MS else last_ms})
    return BudgetJob(run, about, budget or {}, known, is_live)


def at(jobs: Sequence[BudgetJob], minute: int, *budgets: Budget) -> list[tuple[str, ...]]:
    """The jobs of each subject at a minute."""
    found = spells(jobs, budgets or (EACH,), Minutes((minute - 1) * M, minute * M))
    return [spell.subject.jobs for spell in found]


FAILED = job("train-1", (0.5, 10, "failed"))
AGAIN = job("train-2", (30, 40.5, "completed"))


def test_what_is_submitted_again_after_it_failed_is_one_run_from_its_begin_on() -> None:
    jobs = [FAILED, AGAIN, job("train-3", (45, None, "running"))]
    assert at(jobs, 1) == [("train-1",)]
    assert at(jobs, 29) == [("train-1",)]
    assert at(jobs, 30) == [("train-1", "train-2")]
    # After a completed job another run begins.
    assert at(jobs, 60) == [("train-1", "train-2"), ("train-3",)]


def test_jobs_side_by_side_are_no_run_and_other_teams_are_apart() -> None:
    beside = job("train-2", (5, None, "running"))
    assert at([FAILED, beside], 7) == [("train-1",), ("train-2",)]
    other = job("train-2", (30, None, "running"), team="nlp")
    assert at([FAILED, other], 35) == [("train-1",)]


def test_a_run_that_its_events_name_goes_on_under_any_name_and_time() -> None:
    jobs = [
        job("a", (0, 10, "cancelled"), run_id="llama"),
        job("z", (3000, None, "running"), run_id="llama"),
    ]
    assert at(jobs, 3001) == [("a", "z")]


def test_what_a_run_is_known_by_is_that_of_the_minute() -> None:
    (before, after) = [
        spell.subject.run for spell in spells([FAILED, AGAIN], [EACH], Minutes(30 * M, 50 * M))
    ]
    assert before is not None
    assert (before.state, before.started_ms, before.ended_ms, before.over_ms) == (
        "running",
        M // 2,
        None,
        None,
    )
    assert after is not None
    assert (after.state, after.ended_ms, after.over_ms) == ("completed", 40.5 * M, 40.5 * M)
    failed = [spell.subject.run for spell in spells([FAILED], [EACH], Minutes(10 * M, 20 * M))]
    assert [run.over_ms for run in failed if run is not None] == [20 * M]


def test_its_own_budget_is_that_of_its_newest_job() -> None:
    jobs = [
        job("train-1", (0, 10, "failed"), budget={"usd": "5"}),
        job("train-2", (30, None, "running"), budget={"usd": "8"}),
    ]
    found = list(spells(jobs, [], Minutes(20 * M, 40 * M)))
    said = [(spell.minutes, spell.subject.budget.limits.usd_nano, spell.subject.jobs) for spell in found]
    assert said == [
        (Minutes(20 * M, 29 * M), 5 * 10**9, ("train-1",)),
        (Minutes(29 * M, 40 * M), 8 * 10**9, ("train-1", "train-2")),
    ]


def test_runs_without_a_live_job_are_left_out_and_the_old_jobs_of_one_that_goes_on_are_not() -> None:
    old = job("train-1", (0, 10, "failed"), is_live=False)
    assert at([old], 100) == []
    assert at([old, job("train-2", (99, None, "running"))], 100) == [("train-1", "train-2")]


def test_a_job_that_has_not_begun_stands_alone() -> None:
    assert at([FAILED, job("train-2")], 20) == [("train-1",), ("train-2",)]


def test_jobs_that_a_budget_does_not_match_do_not_count_for_it() -> None:
    jobs = [
        job("a", (0, 10, "failed"), run_id="llama"),
        job("b", (20, None, "running"), run_id="llama"),
    ]
    only = Budget("b", {"job_id": "b"}, "run", Limits(usd_nano=1))
    assert at(jobs, 30, EACH, only) == [("a", "b"), ("b",)]


STATES = ("failed", "preempted", "completed", "cancelled", "superseded")


@st.composite
def histories(draw: st.DrawFn) -> list[BudgetJob]:
    """Up to five submissions of one run, by name or by its id, with pauses or side by side, on minutes and between."""
    declared = draw(st.booleans())
    found = []
    for number in range(draw(st.integers(1, 5))):
        begin = draw(st.integers(0, 80)) / 2
        attempts: list[tuple[float, float | None, str]] = []
        for _ in range(draw(st.integers(1, 3))):
            end = begin + draw(st.integers(1, 30)) / 2
            attempts.append((begin, end, draw(st.sampled_from(STATES))))
            begin = end + draw(st.integers(0, 30)) / 2
        if draw(st.booleans()):
            attempts[-1] = (attempts[-1][0], None, "running")
        found.append(job(f"train-{number}", *attempts, run_id="llama" if declared else ""))
    return found


def by_minute(found: Sequence[Spell]) -> dict[int, set[tuple[Run | None, int | None]]]:
    """What stands at each minute; of a run when it was over, if that was known at it."""
    known: dict[int, set[tuple[Run | None, int | None]]] = {}
    for subject, minutes in found:
        assert minutes.since_ms is not None
        for at_ms in range(minutes.since_ms + M, minutes.until_ms + 1, M):
            over_ms = None if subject.run is None else subject.run.over_ms
            known.setdefault(at_ms, set()).add((subject.run, over_ms))
    return known


@pytest.mark.parametrize("step", [1, 7, 60])
@given(histories())
def test_each_minute_is_judged_alike_however_many_are_at_once(step: int, jobs: list[BudgetJob]) -> None:
    whole = by_minute([*spells(jobs, [EACH], Minutes(0, 2 * HOUR_MS))])
    parts = [
        spell
        for begin in range(0, 120, step)
        for spell in spells(jobs, [EACH], Minutes(begin * M, min(begin + step, 120) * M))
    ]
    assert by_minute(parts) == whole
