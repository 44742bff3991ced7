"""The rule `inefficient`: jobs whose busy GPUs do next to nothing, and the plain judge of the same minutes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS
from streams.engine.rules.inefficient import GpuPaid, JobUse, LowUse, margins
from tests.oracle.job_use import Minute, inefficient
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
RULE = "inefficient"
LENGTH = 270
FULL = Minute(0.95, 0.6, 0.3, 24, 8)
LOW = Minute(0.95, 0.05, 0.0, 24, 8)


def does(world: World, job_id: str, minutes: Mapping[int, Minute], **about: Any) -> None:
    """A job whose GPUs do so much by the minute."""
    names = {"owner": f"of-{job_id}", "team": "vision", **about}
    world.put(JOBS, job_id=job_id, state="running", started=at(T0), **names)
    for hour in sorted({(T0 + minute * M) // HOUR_MS for minute in minutes}):
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour * HOUR_MS), wall_clock_ms=1)
    for minute, use in minutes.items():
        row = {"job_id": job_id, "node": "n0", "minute": at(T0 + minute * M)}
        sampled, whole = 60 * use.gpus, 60_000 * use.gpus
        measures: dict[str, int] = {"sampled_gpu_s": sampled, "productive_gpu_ms": round(use.busy * whole)}
        measures["power_w_max"] = 600  # what spins draws less than before
        for name, value in (("sm", use.sm), ("tensor", use.tensor)):
            if value is not None:
                measures |= {f"{name}_gpu_ms": round(value * whole), f"{name}_sampled_gpu_s": sampled}
        world.put(JOB_USAGE_MINUTES, **row, **measures)
        paid = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": use.gpus * 60_000_000}
        world.put(JOB_MINUTES, sku="h100", cost_usd=Decimal(str(use.usd_per_hour)) / 60, **row, **paid)


def phases(*parts: tuple[Minute, int]) -> dict[int, Minute]:
    """One after the other, for so many minutes each."""
    return dict(enumerate(each for each, minutes in parts for _ in range(minutes)))


def test_busy_gpus_that_do_little_are_told_until_they_do_more(world: World) -> None:
    does(world, "tiny", phases((FULL, 28), (LOW, 150), (FULL, 92)))
    changes = world.look(LENGTH / 60)
    assert told(changes, RULE) == [("tiny", "firing", 150), ("tiny", "resolved", 240)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.owner, alert.usd_nano_per_hour) == ("ticket", "of-tiny", 22_800_000_000)
    assert alert.summary == (
        "tiny: 8 GPUs are 95 % busy and their multiprocessors (SM) 5.0 % active for 2 h, $23/h unused; profile it or use cheaper ones,"
        " else $171 more by 20:00 UTC"
    )
    works(world, alert)


def test_the_dollars_decide_the_severity(world: World) -> None:
    does(world, "large", phases((LOW._replace(usd_per_hour=240, gpus=80), 150)))
    (alert,) = world.look(2.5)
    assert (alert.rule, alert.severity) == (RULE, "page")


def test_multiprocessors_that_work_without_tensor_cores_are_worth_what_they_do_not(world: World) -> None:
    does(world, "fp32", phases((Minute(0.95, 0.75, 0.0, 24, 8), 150)))
    (alert,) = world.look(2.5)
    assert alert.usd_nano_per_hour == 5_900_000_000
    assert "tensor cores 0.0 % active" in alert.summary


def test_ordinary_work_is_none(world: World) -> None:
    does(world, "idle", phases((LOW._replace(busy=0.1), LENGTH)))
    does(world, "cheap", phases((LOW._replace(usd_per_hour=6), LENGTH)))
    does(world, "not-sampled", phases((LOW._replace(sm=None, tensor=None), LENGTH)))
    does(world, "trains", phases((FULL, LENGTH)))
    does(world, "evaluates", phases((LOW, 90), (FULL, 30), (LOW, 90), (FULL, 60)))
    does(world, "notebook", phases((LOW, LENGTH)), labels={"interactive": "true"})
    assert told(world.look(4.5), RULE) == []


def test_a_planned_job_is_none(world: World) -> None:
    does(world, "planned", phases((LOW, LENGTH)))
    plan = {"usd_per_hour": "24", "job_id": "planned", "from_ms": T0, "until_ms": T0 + 9 * HOUR_MS}
    assert told(world.look(4.5, ("planned", "p", plan)), RULE) == []


def test_jobs_of_one_name_are_told_once_in_a_week(world: World) -> None:
    does(world, "daily-1", phases((LOW, 150)))
    assert told(world.look(2.5), RULE) == [("daily-1", "firing", 120)]
    first = {"alert_id": "al_1", "rule": RULE, "severity": "ticket", "status": "firing", "team": "vision"}
    world.put(ALERTS, **first, subject_kind="job", subject_name="daily-1", started=at(T0 + 120 * M))
    does(world, "daily-2", {minute + 150: each for minute, each in phases((LOW, 200)).items()})
    does(world, "other-1", {minute + 150: each for minute, each in phases((LOW, 200)).items()})
    changes = world.look(3.5)
    assert sorted(told(changes, RULE)) == [("daily-1", "resolved", 240), ("other-1", "firing", 270)]


def test_a_job_whose_idle_gpus_are_known_is_told_once(world: World) -> None:
    does(world, "waits", phases((LOW, LENGTH)))
    known = {"alert_id": "al_1", "rule": "idle_gpus", "severity": "ticket", "status": "firing"}
    world.put(ALERTS, **known, subject_kind="job", subject_name="waits", started=at(T0 + 60 * M))
    assert told(world.look(4.5), RULE) == []


def test_the_rule_can_be_switched_off(world: World) -> None:
    does(world, "tiny", phases((LOW, LENGTH)))
    off = ("rule", "off", {"rule": RULE, "enabled": False})
    assert told(world.look(2.5), RULE) == [("tiny", "firing", 120)]
    assert told(world.look(1, off), RULE) == [("tiny", "resolved", 180)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    of = {"hours": 2, "busy_ratio": 0.5, "usd_per_gpu_hour": 1.5, "least_usd_per_hour": 1}
    use = JobUse(1000, 750, 1000, 0, 0, 0)
    low = LowUse("sm", 2, use, GpuPaid(3 * 10**9, 1000 * HOUR_MS))
    assert [each.share for each in margins(of, low)] == [0.5, 1.5, 2.0, 3.0]


measure = st.sampled_from([None, 0.0, 0.02, 0.1, 0.5])
drawn = st.lists(
    st.tuples(
        st.builds(
            Minute,
            st.sampled_from([0.2, 0.5, 0.9]),
            measure,
            measure,
            st.sampled_from([0.6, 12, 36]),
            st.just(8),
        ),
        st.integers(1, 200),
    ),
    min_size=1,
    max_size=4,
)
cuts = st.lists(st.integers(1, LENGTH - 1), max_size=3, unique=True)


@example([(LOW, 200), (FULL, 70)], [100, 200])
@example([(LOW._replace(sm=0.1), 50), (LOW._replace(sm=0.1), 50), (LOW._replace(tensor=None), 60)], [])
@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn, cuts)
def test_the_alerts_are_those_of_the_plain_judge(
    shared: Any, parts: list[tuple[Minute, int]], cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    minutes = {minute: each for minute, each in phases(*parts).items() if minute < LENGTH}
    does(world, "job", minutes)
    seen = {T0 + minute * M: each for minute, each in minutes.items()}
    want, fires, was = list[tuple[str, int]](), False, False
    for at_ms in range(T0 + 30 * M, T0 + LENGTH * M + 1, 30 * M):
        now = inefficient(seen, at_ms, fires) and (fires or not was)  # once a week
        if now != fires:
            want.append(("firing" if now else "resolved", (at_ms - T0) // M))
        fires, was = now, was or now
    got: list[tuple[str, int]] = []
    for until in [*sorted(cut), LENGTH]:
        changes = world.look((T0 + until * M - world.since_ms) / HOUR_MS)
        got += [(status, minute) for _, status, minute in told(changes, RULE)]
    assert got == want
