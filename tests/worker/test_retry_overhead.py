"""The rule `retry_overhead` of training runs of which each submission is another job."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.alerts.alert import Alert
from streams.engine.rules.retry_overhead import NAME
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0
from tests.worker.test_fleet_rules import World, said, shared, works, world
from tests.worker.test_resubmit_loop import ran

__all__ = ["shared", "world"]


def hourly(world: World, first: int, jobs: int, *, lost: float = 5.0, **about: Any) -> None:
    """Jobs of one run, of which each fails after most of an hour."""
    for number in range(jobs):
        hour = 60 * number
        ran(world, str(first + number), hour + 2, hour + 58, lost=lost, **about)


def test_what_the_jobs_of_a_run_lost_counts_together(world: World) -> None:
    hourly(world, 101, 4)
    hourly(world, 201, 4, work_dir="/cheap", lost=1.5)
    changes = world.look(5)
    assert said(changes, NAME) == [("103", "firing", 3)]
    alert = next(each for each in changes if each.rule == NAME)
    assert alert.summary == (
        "run llama (3 jobs, now 103) has lost $15.00 of $15.00 (100 %) to 3 attempts that failed or were preempted;"
        " checkpoint more often, or find out why they end"
    )
    assert (alert.owner, alert.team, alert.cost_nano) == ("ada", "vision", 15 * 10**9)
    works(world, alert)


def test_an_alert_about_a_run_goes_on_while_its_next_job_waits_and_ends_with_it(world: World) -> None:
    hourly(world, 101, 3)
    ran(world, "104", 60 * 9 + 2, 60 * 9 + 40, "completed")
    ran(world, "105", 60 * 10 + 2, 60 * 10 + 40)  # another run: the one before was completed
    changes = world.look(6) + world.look(6)
    assert said(changes, NAME) == [("103", "firing", 3), ("103", "resolved", 10)]


def test_a_run_id_joins_jobs_of_other_names(world: World) -> None:
    for number, job_id in enumerate(("alpha", "beta", "gamma")):
        about: dict[str, Any] = {"run_id": "llama-a", "experiment": "", "work_dir": f"/{job_id}"}
        ran(world, job_id, 60 * number + 2, 60 * number + 58, lost=5, **about)
        ran(world, f"t-{job_id}", 60 * number + 2, 60 * number + 58, lost=5, run_id=f"trial-{job_id}")
    assert said(world.look(3), NAME) == [("gamma", "firing", 3)]


def test_trials_side_by_side_and_tasks_of_an_array_are_each_their_own(world: World) -> None:
    for number in range(4):
        ran(world, f"3{number}", 20 * number, 20 * number + 30, lost=5, work_dir="/sweep")
        array: dict[str, Any] = {"labels": [("slurm_array_job_id", "900")], "work_dir": "/array"}
        ran(world, f"900_{number}", 60 * number + 2, 60 * number + 58, lost=5, **array)
    assert said(world.look(5), NAME) == []


def test_it_leaves_out_what_an_alert_about_a_loop_of_the_run_named(world: World) -> None:
    for number in range(4):
        ran(world, str(101 + number), 10 * number, 9 + 10 * number, lost=8)
    for number in range(2):
        ran(world, str(105 + number), 180 + 60 * number, 230 + 60 * number, lost=8)
    # `resubmit_loop` names four of them, and two are too few.
    assert said(world.look(6), NAME) == []


drawn_jobs = st.lists(
    st.tuples(
        st.integers(0, 200),  # minutes after the one before
        st.integers(5, 170),
        st.sampled_from(["failed", "failed", "failed", "preempted", "completed", "cancelled", "running"]),
        st.sampled_from([0, 2, 9]),
        st.booleans(),  # beside the one before
        st.sampled_from(["", "", "r"]),
    ),
    min_size=3,
    max_size=9,
)
HOURS = 30


def judged(shared: Any, drawn: list[Any], cuts: list[int]) -> list[Alert]:
    """The changes of the rule, judged in these spans; what was told is stored between them, as a worker does."""
    empty(shared.target)
    world = World(shared)
    begin = 0
    for number, (gap, length, state, lost, is_beside, run_id) in enumerate(drawn):
        begin += 0 if is_beside else gap
        end = None if state == "running" else begin + length
        ran(world, str(101 + number), begin, end, state, lost=lost, run_id=run_id)
        begin += 0 if is_beside else length
    found = []
    for until in [*sorted(cuts), HOURS * 60]:
        changes = world.look((T0 + until * MINUTE_MS - world.since_ms) / HOUR_MS)
        found += [each for each in changes if each.rule == NAME]
        world.keep(changes)
    return found


@settings(PROFILE, max_examples=max(EXAMPLES // 5, 5))
@given(drawn_jobs, st.lists(st.integers(1, HOURS * 60 - 1), min_size=1, max_size=5, unique=True))
def test_any_cut_gives_the_same_alerts(shared: Any, drawn: list[Any], cuts: list[int]) -> None:
    assert judged(shared, drawn, cuts) == judged(shared, drawn, [])
