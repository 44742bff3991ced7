"""The rule `straggler`: nodes of a job that do less than its others, and the plain judge of the same minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS
from streams.engine.rules.straggler import Uneven, margins
from tests.oracle.node_use import Minute, straggler
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
RULE = "straggler"
LENGTH = 150
Use = Callable[[int], float]
#: GPUs that do as much are busy, and their multiprocessors do next to nothing.
SPINS = 1.0
SPIN_SM = 0.07
NO_SPINNING = ("rule", "no-spinning", {"rule": "spinning", "enabled": False})


def uses(
    world: World, job_id: str, minutes: range, usd: float = 0.332, /, **nodes: Use | tuple[Use, int]
) -> None:
    """A job whose nodes do so much by the minute, on 8 GPUs or as many as are said, for so many dollars a minute and node."""
    about = {"owner": f"of-{job_id}", "team": "vision"}
    world.put(JOBS, job_id=job_id, state="running", started=at(T0), **about)
    for hour in sorted({(T0 + minute * M) // HOUR_MS for minute in minutes}):
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour * HOUR_MS), wall_clock_ms=1)
    for node, use in nodes.items():
        of_minute, gpus = use if isinstance(use, tuple) else (use, 8)
        for minute in minutes:
            row = {"job_id": job_id, "node": node, "minute": at(T0 + minute * M)}
            work = round(of_minute(minute) * gpus * 60_000)
            active = round(
                (SPIN_SM if of_minute(minute) == SPINS else 0.5 * of_minute(minute)) * gpus * 60_000
            )
            sampled = {"sampled_gpu_s": 60 * gpus, "sm_sampled_gpu_s": 60 * gpus}
            world.put(JOB_USAGE_MINUTES, productive_gpu_ms=work, sm_gpu_ms=active, **sampled, **row)
            paid = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": gpus * 60_000_000}
            world.put(JOB_MINUTES, sku="h100", cost_usd=Decimal(str(usd)), **row, **paid)


def uneven(
    world: World,
    job_id: str,
    minutes: range,
    ratio: float,
    *others: str,
    names: Sequence[str],
    usd: float = 0.332,
) -> None:
    """A job of which some nodes fall to a share after an hour."""
    steps = {name: falls(60, ratio) for name in names} | dict.fromkeys(others, full)
    uses(world, job_id, range(minutes.start, minutes.stop + 60), usd, **steps)


def full(_: int) -> float:
    return 0.9


def falls(minute: int, to: float = 0.3, until: int = LENGTH) -> Use:
    return lambda now: to if minute <= now < until else 0.9


def test_a_slow_node_of_four_is_told_with_what_the_others_wait_for(world: World) -> None:
    uses(world, "slow", range(LENGTH), n0=falls(40), n1=full, n2=full, n3=full)
    changes = world.look(3)
    assert told(changes, RULE) == [("slow", "firing", 75), ("slow", "resolved", 165)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.owner, alert.usd_nano_per_hour) == ("ticket", "of-slow", 39_840_000_000)
    assert alert.summary == (
        "slow: node n0 at 30 % GPU use since 10:43 UTC, 3 others at 90 %, which wait for $40/h; replace it, else $309 more by 19:00 UTC"
    )
    works(world, alert)


def test_from_a_hundred_dollars_an_hour_of_waiting_on_it_is_a_page(world: World) -> None:
    uses(world, "large", range(80), n0=falls(40), **{f"n{number}": full for number in range(1, 12)})
    (alert,) = world.look(80 / 60)
    assert (alert.rule, alert.severity) == (RULE, "page")


def test_a_node_that_does_nothing_any_more_costs_what_it_costs_itself(world: World) -> None:
    uses(world, "gone", range(80), n0=falls(40, 0.0), **{f"n{number}": full for number in range(1, 12)})
    (alert,) = world.look(80 / 60)
    assert (alert.severity, alert.usd_nano_per_hour) == ("ticket", 19_920_000_000)
    assert "11 others at 90 %; $20/h unused" in alert.summary


def test_one_of_two_nodes_that_evaluates_for_three_quarters_of_an_hour_is_none(world: World) -> None:
    uses(world, "evaluates", range(LENGTH), n0=falls(40, 0.4, 85), n1=full)
    assert told(world.look(3), RULE) == []


def test_one_of_two_nodes_that_is_slow_for_an_hour_is_told(world: World) -> None:
    uses(world, "pair", range(LENGTH), n0=falls(40), n1=full)
    assert told(world.look(LENGTH / 60), RULE) == [("pair", "firing", 105)]


def test_a_phase_that_was_as_long_before_is_none(world: World) -> None:
    def often(minute: int) -> float:
        return 0.3 if minute % 60 >= 32 else 0.9

    uses(world, "alternates", range(LENGTH), n0=often, n1=full, n2=full, n3=full)
    assert told(world.look(3), RULE) == []


def test_nodes_that_take_turns_are_none(world: World) -> None:
    def turn(of: int) -> Use:
        return lambda minute: 0.9 if minute // 25 % 2 == of else 0.1

    uses(world, "rlhf", range(LENGTH), n0=turn(0), n1=turn(0), n2=turn(1), n3=turn(1))
    assert told(world.look(3), RULE) == []


def test_nodes_of_another_part_in_the_job_are_none(world: World) -> None:
    uses(world, "parts", range(LENGTH), n0=falls(0), n1=falls(0), n2=full, n3=full)
    uses(world, "head", range(LENGTH), head=(falls(0, 0.0), 1), n1=full, n2=full, n3=full, n4=full)
    assert told(world.look(3), RULE) == []


def test_a_single_node_that_was_slow_from_its_start_is_told_after_an_hour(world: World) -> None:
    uses(world, "bad", range(LENGTH), n0=falls(0), n1=full, n2=full, n3=full)
    changes = world.look(LENGTH / 60)
    assert told(changes, RULE) == [("bad", "firing", 60)]
    assert "which wait" not in changes[0].summary


@pytest.mark.parametrize("usual", [0.0, 0.45])
def test_jobs_whose_nodes_all_do_little_are_none(world: World, usual: float) -> None:
    def low(minute: int) -> float:
        return 0.9 if minute < 30 else usual

    uses(world, "low", range(LENGTH), n0=falls(30, 0.1), n1=low, n2=low, n3=low)
    assert told(world.look(3), RULE) == []


@pytest.mark.parametrize("to", [0.0, 0.12, SPINS], ids=["idle", "nearly idle", "busy and inactive"])
def test_seven_of_eight_nodes_that_stand_still_are_told_with_what_they_cost(world: World, to: float) -> None:
    nodes = {f"n{number}": falls(40, to) for number in range(1, 8)}
    uses(world, "hangs", range(LENGTH), n0=full, **nodes)
    changes = world.look(3)
    assert told(changes, RULE) == [("hangs", "firing", 75 if to == SPINS else 70), ("hangs", "resolved", 165)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    unused = 121 if to == 0.12 else 139
    assert alert.severity == "page"
    assert alert.summary.startswith(
        f"hangs: 7 of 8 nodes stand still since 10:{43 if to == SPINS else 38} UTC, the other one works; ${unused}/h unused; look what its ranks wait for, restart it"
    )
    works(world, alert)


def test_most_nodes_that_still_work_are_not_said_to_stand_still(world: World) -> None:
    uses(world, "slow", range(LENGTH), n0=full, **{f"n{number}": falls(40, 0.4) for number in range(1, 4)})
    (alert, _) = [each for each in world.look(3) if each.rule == RULE]
    assert alert.summary.startswith(
        "slow: 3 of 4 nodes at 40 % GPU use since 10:43 UTC, the other one at 90 %; $33/h unused; look what its ranks wait for"
    )


def test_nodes_that_never_worked_as_the_busiest_one_are_none(world: World) -> None:
    nodes = {f"n{number}": falls(0, 0.1) for number in range(1, 8)}
    uses(world, "one-works", range(LENGTH), n0=full, **nodes)
    assert told(world.look(3), RULE) == []


def test_nodes_that_wait_for_the_evaluation_on_one_are_told_at_the_first_only(world: World) -> None:
    def waits(minute: int) -> float:
        return 0.0 if 30 <= minute < 65 or 100 <= minute < 135 else 0.9

    uses(world, "evaluates", range(LENGTH), n0=full, **{f"n{number}": waits for number in range(1, 8)})
    assert [minute for _, status, minute in told(world.look(3), RULE) if status == "firing"] == [60]


def test_a_cheap_job_is_none(world: World) -> None:
    uses(world, "cheap", range(LENGTH), 0.005, n0=falls(40), n1=full, n2=full, n3=full)
    assert told(world.look(3), RULE) == []


def test_somebody_who_works_in_the_job_is_let_work(world: World) -> None:
    uses(world, "notebook", range(LENGTH), n0=falls(40), n1=full, n2=full, n3=full)
    world.put(JOBS, job_id="notebook", state="running", started=at(T0), labels={"interactive": "yes"})
    assert told(world.look(3), RULE) == []


def test_a_job_whose_stall_is_known_is_told_once(world: World) -> None:
    uses(world, "stands", range(LENGTH), n0=falls(40), n1=full, n2=full, n3=full)
    stall = {"alert_id": "al_1", "rule": "stalled", "severity": "ticket", "status": "firing"}
    world.put(ALERTS, **stall, subject_kind="job", subject_name="stands", started=at(T0 + 60 * M))
    assert told(world.look(3), RULE) == []


def test_the_rule_can_be_switched_off(world: World) -> None:
    uses(world, "slow", range(LENGTH), n0=falls(40), n1=full, n2=full, n3=full)
    off = ("rule", "off", {"rule": RULE, "enabled": False})
    assert told(world.look(2), RULE) == [("slow", "firing", 75)]
    assert told(world.look(0.5, off), RULE) == [("slow", "resolved", 125)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    of = {
        "share_of_others": 0.5,
        "others_ratio": 0.5,
        "minutes": 30,
        "unsure_minutes": 60,
        "least_usd_per_hour": 1,
    }
    found = margins(of, Uneven(("n0",), 3, T0, 0.3, 0.9, worked_before=True), 2 * 10**9, T0 + 17 * M)
    assert [round(each.share or 0, 3) for each in found] == [1.5, 1.8, 0.5, 1, 2]


levels = st.sampled_from([0.0, 0.2, SPINS, 0.9, 0.9, 0.9])
drawn = st.lists(
    st.tuples(
        st.lists(st.tuples(levels, st.integers(1, 60)), min_size=1, max_size=4), st.sampled_from([8, 8, 8, 1])
    ),
    min_size=2,
    max_size=5,
)
cuts = st.lists(st.integers(1, LENGTH - 1), max_size=3, unique=True)
FALL: tuple[list[tuple[float, int]], int] = ([(0.9, 40), (0.0, 60)], 8)
HANG: tuple[list[tuple[float, int]], int] = ([(0.9, 40), (SPINS, 60)], 8)
EVEN: list[tuple[list[tuple[float, int]], int]] = [([(0.9, 60)], 8)] * 3


@example([([(0.9, 40), (0.2, 60)], 8), *EVEN], [80, 90])
@example([([(0.2, 60), (0.2, 60)], 8), *EVEN], [])
@example([EVEN[0], FALL, FALL, FALL], [90])
@example([EVEN[0], HANG, HANG, FALL], [])
@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn, cuts)
def test_the_alerts_are_those_of_the_plain_judge(
    shared: Any, nodes: list[tuple[list[tuple[float, int]], int]], cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    used: dict[tuple[str, int], Minute] = {}
    of_nodes: dict[str, tuple[Use, int]] = {}
    for number, (parts, gpus) in enumerate(nodes):
        by_minute = [level for level, length in parts for _ in range(length)]
        by_minute += [0.9] * (LENGTH - len(by_minute))
        of_nodes[f"n{number}"] = by_minute.__getitem__, gpus
        for minute in range(LENGTH):
            share = by_minute[minute]
            active = SPIN_SM if share == SPINS else 0.5 * share
            used[f"n{number}", T0 + minute * M] = Minute(60 * gpus, 60 * gpus * share, 60 * gpus * active)
    uses(world, "job", range(LENGTH), **of_nodes)
    want, fires = list[tuple[str, int]](), False
    for at_ms in range(T0 + 5 * M, T0 + LENGTH * M + 1, 5 * M):
        now = bool(straggler(used, at_ms, fires))
        if now != fires:
            want.append(("firing" if now else "resolved", (at_ms - T0) // M))
        fires = now
    got: list[tuple[str, int]] = []
    for until in [*sorted(cut), LENGTH]:
        changes = world.look((T0 + until * M - world.since_ms) / HOUR_MS, NO_SPINNING)
        got += [(status, minute) for _, status, minute in told(changes, RULE)]
    assert got == want
