"""The rule `resubmit_loop`: a run that breaks off again and again, each time as another job."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.tables import ALERTS, ATTEMPTS, JOB_HOURS, JOBS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.lineage import RunAttempt, RunJob, RunLoop, run_key
from streams.engine.rules.resubmit_loop import margins
from tests.oracle.runs import FOREVER, PlainAttempt, resubmit_loop, run_of
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

RULE = "resubmit_loop"
SLURM = {"owner": "ada", "team": "vision", "experiment": "llama", "work_dir": "/home/ada/llama"}


def ran(
    world: World,
    job_id: str,
    begin: float,
    end: float | None,
    state: str = "failed",
    *,
    lost: float = 0.5,
    cost: float | None = None,
    reason: str = "unknown",
    attempt: int = 1,
    **about: Any,
) -> None:
    """An attempt that went on between two minutes, and lost so many dollars if it broke off."""
    began_ms, ended = T0 + round(begin * MINUTE_MS), None if end is None else at(T0 + round(end * MINUTE_MS))
    world.put(JOBS, job_id=job_id, state=state, started=at(began_ms), ended=ended, **{**SLURM, **about})
    put = {"job_id": job_id, "attempt": attempt, "started": at(began_ms), "ended": ended, "state": state}
    world.put(ATTEMPTS, reason=reason if state == "failed" else "", **put)
    if state in ("failed", "preempted"):
        hour = at(began_ms // HOUR_MS * HOUR_MS)
        cost_usd = Decimal(str(lost if cost is None else cost))
        money = {"gpu_cost_usd": cost_usd, "lost_cost_usd": Decimal(str(lost))}
        world.put(JOB_HOURS, job_id=job_id, attempt=attempt, hour=hour, wall_clock_ms=1, **money)


def told(changes: list[Alert]) -> list[tuple[str, str, str, float]]:
    """(subject, severity, status, minute) of its changes."""
    return [
        (each.subject_name, each.severity, each.status, (each.changed_ms - T0) / MINUTE_MS)
        for each in changes
        if each.rule == RULE
    ]


def test_four_submissions_that_fail_in_a_row_are_one_page_with_their_ids_and_dollars(world: World) -> None:
    for number in range(4):
        ran(world, str(101 + number), 1 + 2.5 * number, 2.2 + 2.5 * number, reason="unknown")
    changes = world.look(2)
    assert told(changes) == [("104", "page", "firing", 10), ("104", "page", "resolved", 70)]
    alert = next(each for each in changes if each.rule == RULE)
    assert alert.summary == (
        "101, 102, 103 and 104 failed one after another in 8 min 42 s (unknown x4), $2.00 of work lost in all;"
        " fix llama before it is submitted again"
    )
    assert (alert.owner, alert.team, alert.ratio, alert.cost_nano) == ("ada", "vision", 4.0, 2 * 10**9)
    works(world, alert)


def test_it_is_the_same_in_any_cut(world: World) -> None:
    for number in range(9):
        ran(world, str(101 + number), 1 + 9 * number, 8 + 9 * number)
    changes = [each for _ in range(20) for each in world.look(1 / 6)]
    assert told(changes) == [("104", "page", "firing", 35), ("104", "page", "resolved", 140)]


def test_three_that_lost_much_are_enough(world: World) -> None:
    for number in range(3):
        ran(world, str(101 + number), 10 * number, 9 + 10 * number, lost=9)
        ran(world, str(201 + number), 10 * number, 9 + 10 * number, lost=8, work_dir="/home/ada/other")
    assert told(world.look(1)) == [("103", "page", "firing", 29)]


def test_two_dear_ones_that_fail_hours_apart_are_enough(world: World) -> None:
    for number in range(3):
        ran(world, str(101 + number), 130 * number, 120 + 130 * number, lost=400)
        ran(world, str(201 + number), 130 * number, 120 + 130 * number, lost=150, work_dir="/cheap")
        saves: dict[str, Any] = {"lost": 400.0, "cost": 900, "work_dir": "/saves"}
        ran(world, str(301 + number), 130 * number, 120 + 130 * number, **saves)
        ran(world, str(401 + number), 800 * number, 750 + 800 * number, lost=2000, work_dir="/rare")
    changes = [each for _ in range(20) for each in world.look(0.6)]
    assert told(changes) == [("102", "page", "firing", 250), ("102", "page", "resolved", 575)]
    alert = next(each for each in changes if each.rule == RULE)
    assert alert.summary.startswith(
        "101 and 102 failed one after another in 4 h 10 min (unknown x2), $800.00 of work lost in all;"
    )


def test_a_slow_loop_is_over_when_a_job_of_the_run_is_done(world: World) -> None:
    for number in range(2):
        ran(world, str(101 + number), 130 * number, 120 + 130 * number, lost=400)
    ran(world, "103", 255, 300, "completed")
    assert told(world.look(6)) == [("102", "page", "firing", 250), ("102", "page", "resolved", 300)]


def test_trials_of_a_sweep_that_fail_hours_apart_are_no_slow_loop(world: World) -> None:
    for number in range(4):
        ran(world, str(101 + number), 60 * number, 120 + 60 * number, lost=400)
        ran(world, f"901_{number}", 130 * number, 120 + 130 * number, lost=400, work_dir="/array",
            labels=[("slurm_array_job_id", "901")])  # fmt: skip
    assert told(world.look(9)) == []


def test_a_run_by_its_name_alone_is_a_ticket_unless_it_is_dear(world: World) -> None:
    for number in range(4):
        ran(world, f"prep-{number}", 10 * number, 9 + 10 * number, experiment="", work_dir="")
        ran(world, f"big-{number}", 10 * number, 9 + 10 * number, experiment="", work_dir="", lost=10)
    assert told(world.look(1)) == [("big-2", "page", "firing", 29), ("prep-3", "ticket", "firing", 39)]


def test_one_that_saves_most_of_its_work_is_as_urgent_as_what_it_loses(world: World) -> None:
    for number in range(4):
        for name, lost, cost in (("little", 0.1, 20), ("some", 1, 20), ("much", 30, 70), ("all", 1, 2)):
            ran(world, f"{name}-{number}", 10 * number, 9 + 10 * number, lost=lost, cost=cost, work_dir=name)
    # One that worked for a week before counts from its failure on.
    ran(world, "week-0", -9000, 9, lost=1, cost=9000, work_dir="week")
    for number in range(1, 4):
        ran(world, f"week-{number}", 10 * number, 9 + 10 * number, lost=1, work_dir="week")
    severities = {subject: severity for subject, severity, *_ in told(world.look(1))}
    assert severities == {
        "little-3": "digest",
        "some-3": "ticket",
        "much-2": "page",
        "all-3": "page",
        "week-3": "page",
    }


def test_a_run_id_joins_jobs_of_other_names(world: World) -> None:
    for number, job_id in enumerate(("alpha", "beta", "gamma", "delta")):
        ran(world, job_id, 10 * number, 9 + 10 * number, run_id="llama-a", experiment="", work_dir="")
        ran(world, f"t-{number}", 10 * number, 9 + 10 * number, run_id=f"trial-{number}")  # a sweep's
    assert told(world.look(1)) == [("delta", "page", "firing", 39)]


def test_preemptions_are_counted_apart(world: World) -> None:
    for number in range(6):
        ran(world, str(101 + number), 9 * number, 8 + 9 * number, "preempted" if number else "failed")
    assert told(world.look(1)) == []
    ran(world, "107", 54, 59, "preempted")
    (alert,) = [each for each in world.look(0.1) if each.rule == RULE]
    assert "102, 103, 104, 105 and 2 more were preempted one after another" in alert.summary


def test_what_is_no_run_that_fails_again_is_none(world: World) -> None:
    for number in range(6):
        begin, end = 9 * number, 8 + 9 * number
        array: dict[str, Any] = {"labels": [("slurm_array_job_id", "900")], "work_dir": "/array"}
        ran(world, f"900_{number}", begin, end, **array)
        ran(world, f"sweep-{number}", 5 * number, 5 * number + 12, work_dir="/sweep", experiment="lr")
        ran(world, f"3{number}", begin, end, experiment="bash", work_dir="/shell")
        ran(world, f"4{number}", begin, end, "cancelled" if number % 3 == 2 else "failed", work_dir="/hand")
        ran(world, f"5{number}", begin, end, "completed" if number % 3 == 2 else "failed", work_dir="/some")
        ran(world, f"6{number}", begin, end, work_dir="/limit", reason="timeout")
        ran(world, f"7{number}", 80 * number, 80 * number + 8, work_dir="/rare")
        ran(world, f"8{number}", begin, end, owner=f"user-{number}", work_dir="/shared")
    assert told(world.look(9)) == []


def test_it_is_over_when_a_job_of_the_run_is_done(world: World) -> None:
    for number in range(4):
        ran(world, str(101 + number), 10 * number, 9 + 10 * number)
    ran(world, "105", 45, 52, "completed")
    assert told(world.look(2)) == [("104", "page", "firing", 39), ("104", "page", "resolved", 52)]


def test_what_a_retry_loop_told_of_is_not_told_again(world: World) -> None:
    for number in range(4):
        ran(world, "101", 2 * number, 2 * number + 1, attempt=number + 1)
    ran(world, "102", 10, 12)
    began = at(T0 + 5 * MINUTE_MS)
    loop = {"alert_id": "al_1", "rule": "retry_loop", "subject_kind": "job", "subject_name": "101"}
    about = {"status": "resolved", "started": began, "held": began, "changed": began}
    world.put(ALERTS, resolved=at(T0 + 65 * MINUTE_MS), **loop, **about)
    assert told(world.look(2)) == []


def test_it_can_be_switched_off(world: World) -> None:
    for number in range(4):
        ran(world, str(101 + number), 10 * number, 9 + 10 * number)
    assert told(world.look(0.7)) == [("104", "page", "firing", 39)]
    off = ("rule", "off", {"rule": RULE, "enabled": False})
    assert told(world.look(0.1, off)) == [("104", "page", "resolved", 43)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    thresholds = {
        "failures": 4,
        "dear_failures": 3,
        "lost_usd": 25,
        "preemptions": 6,
        "slow_usd_per_hour": 100,
    }
    broke = tuple(RunAttempt(str(number), 1, number, number + 1, "failed") for number in range(2))
    found = margins(thresholds, RunLoop(2, 3, broke), 50 * 10**9)
    assert [each.share for each in found] == [0.5, 2 / 3, 2.0, 0.0, None]
    slow = tuple(RunAttempt(str(at), 1, at * HOUR_MS, (at + 1) * HOUR_MS, "failed") for at in range(2))
    found = margins(thresholds, RunLoop(2, 3, slow), 500 * 10**9)
    assert found[-1].share == 2.5


names = st.sampled_from(["17", "18_3", "train-1", "train-x7", "ns/5f0c/train-12", "a", "bash", "cl-4", "-1"])


@settings(PROFILE)
@given(st.lists(st.tuples(
    names, st.sampled_from(["", "lr-1", "lr-2", "bash"]), st.sampled_from(["", "r"]), st.sampled_from(["", "/a"]),
    st.sampled_from(["", "ada"]), st.sampled_from([{}, {"interactive": "yes"}, {"slurm_array_job_id": "1"}, {"ci_job": "train"}]),
), min_size=2, max_size=2))  # fmt: skip
def test_jobs_are_of_one_run_as_the_plain_judge_has_it(jobs: list[Any]) -> None:
    ours, plain = [], []
    for job_id, experiment, run_id, work_dir, owner, labels in jobs:
        said = {"job_id": job_id, "experiment": experiment, "run_id": run_id, "work_dir": work_dir}
        ours.append(run_key(RunJob(**said, owner=owner, labels=tuple(labels.items()))))
        plain.append(run_of({**said, "owner": owner, "team": ""}, labels))
    assert [each is None for each in ours] == [each is None for each in plain]
    assert (ours[0] == ours[1]) == (plain[0] == plain[1])


LENGTH = 150
drawn_attempts = st.lists(
    st.tuples(
        st.integers(0, 18),  # minutes after the one before, or side by side with it
        st.integers(1, 18),
        st.sampled_from(
            ["failed", "failed", "failed", "failed", "completed", "preempted", "cancelled", "running"]
        ),
        st.sampled_from(["unknown", "unknown", "unknown", "timeout"]),
        st.sampled_from([0, 2, 9]),
        st.booleans(),
    ),
    min_size=3,
    max_size=14,
)


#: Failures that are hours apart once all takes nine times as long.
SLOW = [
    (2, 14, "failed", "unknown", 9, False),
    (1, 15, "failed", "unknown", 9, False),
    (0, 12, "failed", "unknown", 2, False),
    (1, 18, "failed", "unknown", 9, False),
    (1, 9, "preempted", "unknown", 9, False),
    (1, 9, "failed", "timeout", 9, False),
    (1, 12, "failed", "unknown", 9, False),
    (1, 12, "failed", "unknown", 9, False),
    (0, 5, "completed", "unknown", 9, False),
]


@settings(PROFILE, max_examples=max(EXAMPLES // 4, 5))
@given(drawn_attempts, st.lists(st.integers(1, LENGTH - 1), max_size=3, unique=True), st.just(1))
@example(SLOW, [20, 90], 9)
@example(SLOW[:3], [], 9)
def test_it_holds_where_the_plain_judge_says(
    shared: Any, drawn: list[Any], cut: list[int], times: int
) -> None:
    """`times`: how many times as long and as dear all is."""
    empty(shared.target)
    world = World(shared)
    plain: list[PlainAttempt] = []
    begin = 0
    for number, (gap, length, state, reason, lost, is_beside) in enumerate(drawn):
        begin = begin + (gap * times if not is_beside else 0)
        end = None if state == "running" else begin + length * times
        ran(world, str(101 + number), begin, end, state, reason=reason, lost=lost * times**2)
        ended_ms = FOREVER if end is None else T0 + end * MINUTE_MS
        of_failed = reason if state == "failed" else ""
        broke = state in ("failed", "preempted")
        plain.append(
            PlainAttempt(
                str(101 + number),
                T0 + begin * MINUTE_MS,
                ended_ms,
                state,
                of_failed,
                lost * times**2 * 10**9 * broke,
            )
        )
        begin += 0 if is_beside or end is None else length * times
    want, before = [], False
    for minute in range(1, LENGTH * times + 1):
        holds = bool(resubmit_loop(plain, T0 + minute * MINUTE_MS))
        want += [("firing" if holds else "resolved", minute)] if holds != before else []
        before = holds
    got: list[tuple[str, float]] = []
    for until in [each * times for each in (*sorted(cut), LENGTH)]:
        changes = told(world.look((T0 + until * MINUTE_MS - world.since_ms) / HOUR_MS))
        got += [(status, minute) for _, _, status, minute in changes]
    assert got == want
