"""The rule `spinning`: jobs whose GPUs are busy and do nothing after they worked, and the plain judge of the same minutes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS
from streams.engine.rules.spinning import Spin, margins
from tests.oracle.spinning import Minute, spinning
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
RULE = "spinning"
LENGTH = 120
WORKS = Minute(970, 500, 300, 620)
SPINS = Minute(1000, 60, 0, 140)


def drives(
    world: World, job_id: str, minutes: Mapping[int, Minute], usd: float = 0.332, gpus: int = 8, **about: Any
) -> None:
    """A job whose GPUs do so much by the minute, for so many dollars a minute."""
    names = {"owner": f"of-{job_id}", "team": "vision", **about}
    world.put(JOBS, job_id=job_id, state="running", started=at(T0), **names)
    for hour in sorted({(T0 + minute * M) // HOUR_MS for minute in minutes}):
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour * HOUR_MS), wall_clock_ms=1)
    for minute, use in minutes.items():
        row = {"job_id": job_id, "node": "n0", "minute": at(T0 + minute * M)}
        sampled = 60 * gpus
        measures = {
            "sampled_gpu_s": sampled,
            "productive_gpu_ms": use.busy * sampled,
            "power_w_max": use.power_w,
        }
        for name, value in (("sm", use.sm), ("tensor", use.tensor)):
            if value is not None:
                measures |= {f"{name}_gpu_ms": value * sampled, f"{name}_sampled_gpu_s": sampled}
        world.put(JOB_USAGE_MINUTES, **row, **measures)
        paid = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": gpus * 60_000_000}
        world.put(JOB_MINUTES, sku="h100", cost_usd=Decimal(str(usd)), **row, **paid)


def phases(*parts: tuple[Minute, int]) -> dict[int, Minute]:
    """One after the other, for so many minutes each."""
    return dict(enumerate(each for each, minutes in parts for _ in range(minutes)))


def test_a_collective_that_waits_is_told_until_the_job_works_again(world: World) -> None:
    drives(world, "hangs", phases((WORKS, 40), (SPINS, 40), (WORKS, 40)))
    changes = world.look(2)
    assert told(changes, RULE) == [("hangs", "firing", 55), ("hangs", "resolved", 90)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.owner, alert.usd_nano_per_hour) == ("ticket", "of-hangs", 19_920_000_000)
    assert alert.summary == (
        "hangs: 8 GPUs are busy and do nothing since 10:40 UTC, at 140 W of 620 W, $20/h; a collective waits: look at its ranks, restart"
        " it, else $141 more by 18:00 UTC"
    )
    works(world, alert)


def test_from_a_hundred_dollars_an_hour_on_it_is_a_page(world: World) -> None:
    drives(world, "large", phases((WORKS, 40), (SPINS, 20)), 10, 256)
    (alert,) = world.look(1)
    assert (alert.rule, alert.severity) == (RULE, "page")


@pytest.mark.parametrize(
    "hides", [{"power_w": 0}, {"sm": None}, {"tensor": None}, {"sm": None, "tensor": None}], ids=str
)
def test_what_is_sampled_is_enough(world: World, hides: dict[str, Any]) -> None:
    parts = (WORKS._replace(**hides), 40), (SPINS._replace(**hides), 30)
    drives(world, "hangs", phases(*parts))
    assert told(world.look(70 / 60), RULE) == [("hangs", "firing", 55)]


def test_ordinary_work_is_none(world: World) -> None:
    util: dict[str, Any] = {"sm": None, "tensor": None, "power_w": 0}
    drives(world, "saves", phases((WORKS, 40), (SPINS, 10), (WORKS, 70)))
    drives(world, "idle", phases((WORKS, 40), (SPINS._replace(busy=0), 80)))
    drives(world, "never-worked", phases((SPINS, LENGTH)))
    drives(world, "evaluates", phases((WORKS, 40), (SPINS._replace(power_w=500), 80)))
    drives(world, "not-sampled", phases((WORKS._replace(**util), 40), (SPINS._replace(**util), 80)))
    drives(world, "cheap", phases((WORKS, 40), (SPINS, 80)), 0.01)
    drives(world, "notebook", phases((WORKS, 40), (SPINS, 80)), labels={"interactive": "1"})
    assert told(world.look(2), RULE) == []


def test_a_wait_that_was_as_long_before_is_none(world: World) -> None:
    drives(world, "evaluates", phases((WORKS, 20), (SPINS, 11), (WORKS, 20), (SPINS, 16), (WORKS, 40)))
    assert told(world.look(2), RULE) == []


def test_a_job_that_reports_progress_is_waited_for(world: World) -> None:
    drives(world, "reports", phases((WORKS, 40), (SPINS, 80)), progress={"step": 1.0})
    drives(world, "stands", phases((WORKS, 40), (SPINS, 80)), progress={"step": 1.0})
    known = {"alert_id": "al_1", "rule": "stalled", "severity": "page", "status": "firing"}
    world.put(ALERTS, **known, subject_kind="job", subject_name="stands", started=at(T0 + 57 * M))
    assert told(world.look(2), RULE) == [("reports", "firing", 75)]


def test_it_goes_on_while_reports_show_that_the_work_stands_still(world: World) -> None:
    drives(world, "hangs", phases((WORKS, 30), (SPINS, 30), (WORKS, 60)))
    known = {"alert_id": "al_1", "rule": "stalled", "severity": "page", "status": "resolved"}
    times = {"started": at(T0 + 55 * M), "resolved": at(T0 + 80 * M)}
    world.put(ALERTS, **known, **times, subject_kind="job", subject_name="hangs")
    assert told(world.look(2), RULE) == [("hangs", "firing", 45), ("hangs", "resolved", 95)]


def test_minutes_of_which_another_rule_told_show_nothing_more(world: World) -> None:
    drives(world, "hangs", phases((WORKS, 30), (SPINS, 90)))
    known = {"alert_id": "al_1", "rule": "stalled", "severity": "page", "status": "resolved"}
    times = {"started": at(T0 + 35 * M), "resolved": at(T0 + 60 * M)}
    world.put(ALERTS, **known, **times, subject_kind="job", subject_name="hangs")
    # So long, and 12 min of its own after that, with the samples' lag.
    assert told(world.look(2), RULE) == [("hangs", "firing", 85)]


def test_the_rule_can_be_switched_off(world: World) -> None:
    drives(world, "hangs", phases((WORKS, 40), (SPINS, 80)))
    off = ("rule", "off", {"rule": RULE, "enabled": False})
    assert told(world.look(1), RULE) == [("hangs", "firing", 55)]
    assert told(world.look(0.5, off), RULE) == [("hangs", "resolved", 65)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    found = margins({"minutes": 12, "least_usd_per_hour": 1}, Spin(0, 6, 600, 100, 8), 2 * 10**9)
    assert [each.share for each in found] == [0.5, 2.0]


measure = st.sampled_from([None, 0, 20, 100, 101, 500])
minute = st.builds(
    Minute, st.sampled_from([400, 900, 1000]), measure, measure, st.sampled_from([0, 100, 310, 620])
)
drawn = st.lists(
    st.tuples(st.one_of(st.just(WORKS), st.just(SPINS), minute), st.integers(1, 40)), min_size=1, max_size=7
)
cuts = st.lists(st.integers(1, LENGTH - 1), max_size=3, unique=True)


@example([(WORKS, 20), (SPINS, 30), (WORKS, 20), (SPINS, 50)], [45, 60])
@example([(WORKS._replace(sm=None, tensor=None), 20), (SPINS._replace(sm=None, tensor=None), 60)], [])
@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn, cuts)
def test_the_alerts_are_those_of_the_plain_judge(
    shared: Any, parts: list[tuple[Minute, int]], cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    minutes = {number: each for number, each in phases(*parts).items() if number < LENGTH}
    drives(world, "job", minutes)
    want, opened = list[tuple[str, int]](), None
    for now in range(5, LENGTH + 1, 5):
        holds = spinning(minutes, now, opened)
        if holds != (opened is not None):
            want.append(("firing" if holds else "resolved", now))
            opened = now if holds else None
    got: list[tuple[str, int]] = []
    for until in [*sorted(cut), LENGTH]:
        changes = world.look((T0 + until * M - world.since_ms) / HOUR_MS)
        got += [(status, number) for _, status, number in told(changes, RULE)]
    assert got == want
