"""The burn kernels against exact integration, over curves of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.kernels.burn import CURVE, FACT, LUMP, STEP, WINDOWS_MS, fill_figures, find_facts
from streams.engine.kernels.due import LAST_ROW, choose_rows
from tests.engine.kernels import naive_burn

NOON_MS = 1_700_006_400_000
BEGINNING_MS = -(2**62)
HOUR_MS = 3_600_000

near = st.one_of(
    st.integers(-8 * HOUR_MS, HOUR_MS),
    st.integers(-480, 60).map(lambda minute: minute * 60_000),
    st.sampled_from(WINDOWS_MS).map(lambda window_ms: -window_ms),
).map(lambda offset: NOON_MS + offset)
rates = st.one_of(st.just(0.0), st.floats(1e-6, 1e9), st.integers(1, 10**6).map(float))


class Job(NamedTuple):
    steps: list[tuple[int, float, float, bool]]
    lumps: dict[int, float]
    first_paid_ms: int
    ended_ms: int
    undecided_until_ms: int = 0
    facts: Sequence[tuple[int, int, int, float]] = ()
    on_gpus: bool = True
    in_bursts: bool = True


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    times = sorted(draw(st.lists(near, max_size=draw(st.sampled_from([3, 8, 24])), unique=True)))
    steps = [(BEGINNING_MS, 0.0, 0.0, False)]
    steps += [(at_ms, draw(rates), draw(rates), draw(st.booleans())) for at_ms in times]
    return Job(
        steps,
        {minute // 60_000: draw(rates) for minute in draw(st.lists(near, max_size=6))},
        next((step[0] for step in steps if step[3]), -1),
        draw(st.one_of(near, st.just(2**62))),
        draw(st.one_of(near, st.just(0))),
        draw(
            st.lists(
                st.tuples(st.sampled_from((3, 4, 9)), near, near, st.sampled_from((0.0, 0.0, 0.55))),
                max_size=4,
            )
        ),
        draw(st.booleans()),
        draw(st.booleans()),
    )


ticks = st.lists(
    st.one_of(near, near.map(lambda at: at // 10_000 * 10_000)), min_size=1, max_size=6, unique=True
).map(sorted)


class Filled(NamedTuple):
    now: np.ndarray
    expected_rate: np.ndarray
    cost: np.ndarray
    expected: np.ndarray
    elapsed: np.ndarray
    whole: np.ndarray
    ended: np.ndarray
    undecided: np.ndarray
    paid_now: np.ndarray
    since_paid: np.ndarray
    traffic: np.ndarray
    basis: np.ndarray
    facts: np.ndarray
    steady: np.ndarray
    repeated: np.ndarray
    recurring: np.ndarray


def facts_of(given_jobs: list[Job]) -> np.ndarray:
    """All facts, job after job."""
    return np.array([fact for job in given_jobs for fact in job.facts], FACT)


def run(times: list[int], given_jobs: list[Job]) -> tuple[Filled, int]:
    """The kernel over jobs laid end to end."""
    curves = np.zeros(len(given_jobs), CURVE)
    steps = np.zeros(sum(len(job.steps) for job in given_jobs), STEP)
    lumps = np.zeros(sum(len(job.lumps) for job in given_jobs), LUMP)
    at, lump_at, fact_at = 0, 0, 0
    for position, job in enumerate(given_jobs):
        curves[position] = (
            job.first_paid_ms,
            job.ended_ms,
            2**62,
            0,
            job.undecided_until_ms,
            0,
            at,
            len(job.steps),
            0,
            lump_at,
            len(job.lumps),
            0,
            fact_at,
            len(job.facts),
            0,
            0,
            0.0,
            job.on_gpus,
            job.in_bursts,
        )
        fact_at += len(job.facts)
        cost, expected, paid_ms = 0.0, 0.0, 0
        for k, step in enumerate(job.steps):
            if k:
                length_ms = step[0] - job.steps[k - 1][0]
                cost += job.steps[k - 1][1] * length_ms
                expected += job.steps[k - 1][2] * length_ms
                paid_ms += job.steps[k - 1][3] * length_ms
            steps[at + k] = (step[0], step[1], cost, step[2], expected, step[3], paid_ms)
        at += len(job.steps)
        total = 0.0
        for minute, amount in sorted(job.lumps.items()):
            lumps[lump_at] = (minute, amount, total)
            total += amount
            lump_at += 1
    flat, deep = (len(times), len(given_jobs)), (len(times), len(given_jobs), 4)
    filled = Filled(
        now=np.empty(flat),
        expected_rate=np.empty(flat),
        cost=np.empty(deep),
        expected=np.empty(deep),
        elapsed=np.empty(deep, np.int64),
        whole=np.empty(deep, np.bool_),
        ended=np.empty(flat, np.bool_),
        undecided=np.empty(flat, np.bool_),
        paid_now=np.empty(flat, np.bool_),
        since_paid=np.empty(flat, np.int64),
        traffic=np.empty(deep),
        basis=np.empty(deep),
        facts=np.empty(flat, np.int64),
        steady=np.empty(flat),
        repeated=np.empty(flat),
        recurring=np.empty(flat),
    )
    rows = steps, lumps, facts_of(given_jobs)
    return filled, fill_figures(np.array(times, np.int64), curves, *rows, *filled)


@given(ticks, st.lists(jobs(), max_size=3))
def test_figures_equal_exact_integration(times: list[int], given_jobs: list[Job]) -> None:
    filled, bad = run(times, given_jobs)
    assert bad == -1
    for j, job in enumerate(given_jobs):
        ends = [step[0] for step in job.steps[1:]] + [2**62]
        cost: list[naive_burn.Piece] = [(s[0], end, s[1]) for s, end in zip(job.steps, ends, strict=True)]
        expected: list[naive_burn.Piece] = [(s[0], end, s[2]) for s, end in zip(job.steps, ends, strict=True)]
        paid = [(s[0], end) for s, end in zip(job.steps, ends, strict=True) if s[3]]
        for i, t_ms in enumerate(times):
            in_force = max(step for step in job.steps if step[0] <= t_ms)
            assert filled.now[i, j] == pytest.approx(in_force[1] * HOUR_MS, rel=1e-12)
            assert filled.expected_rate[i, j] == pytest.approx(in_force[2] * HOUR_MS, rel=1e-12)
            assert filled.ended[i, j] == (t_ms >= job.ended_ms)
            held = {rule for rule, from_ms, until_ms, _ in job.facts if from_ms <= t_ms < until_ms}
            assert filled.facts[i, j] == sum(1 << rule for rule in held)
            assert filled.paid_now[i, j] == in_force[3]
            since_ms = t_ms - job.first_paid_ms if job.first_paid_ms >= 0 else 0
            assert filled.since_paid[i, j] == max(since_ms, 0)
            assert filled.undecided[i, j] == (t_ms < job.undecided_until_ms)
            lumps: dict[int, naive_burn.Amount] = dict(job.lumps)
            again = naive_burn.again(t_ms, lumps, on_gpus=job.on_gpus, in_bursts=job.in_bursts)
            seen = filled.steady[i, j], filled.repeated[i, j], filled.recurring[i, j]
            assert seen == pytest.approx([float(each) for each in again], rel=1e-9, abs=1e-3)
            for w, window_ms in enumerate(WINDOWS_MS):
                want = naive_burn.window(t_ms, window_ms, cost, expected, paid, lumps)
                # What a greater sum beyond the window leaves of a float64.
                noise = 1e-13 * sum(float(rate) for _, rate, _, _ in job.steps) * 9 * HOUR_MS
                assert filled.cost[i, j, w] == pytest.approx(float(want.cost), rel=1e-12, abs=noise + 1e-3)
                amounts = naive_burn.window(t_ms, window_ms, [], [], [], lumps).cost
                assert filled.traffic[i, j, w] == pytest.approx(float(amounts), rel=1e-9, abs=1e-3)
                explained = sum(
                    share * rate * max(0, min(end, until_ms, t_ms) - max(begin, from_ms, t_ms - window_ms))
                    for _, from_ms, until_ms, share in job.facts
                    for begin, end, rate in cost
                    if from_ms < until_ms
                )
                few = 4 * noise + 1e-3
                assert filled.basis[i, j, w] == pytest.approx(float(explained), rel=1e-12, abs=few)
                noise = 1e-13 * sum(float(rate) for _, _, rate, _ in job.steps) * 9 * HOUR_MS
                assert filled.expected[i, j, w] == pytest.approx(float(want.expected), rel=1e-12, abs=noise)
                assert filled.elapsed[i, j, w] == want.elapsed_ms
                assert filled.whole[i, j, w] == want.paid_whole


@given(st.lists(jobs(), max_size=4), near, near)
def test_jobs_of_which_a_fact_holds_are_found(given_jobs: list[Job], one: int, other: int) -> None:
    first_ms, last_ms = sorted((one, other))
    curves = np.zeros(len(given_jobs), CURVE)
    counts = [len(job.facts) for job in given_jobs]
    curves["facts"] = counts
    curves["fact_at"] = np.cumsum([0, *counts])[:-1]
    slots, rows = np.empty(len(given_jobs), np.int64), np.empty(len(given_jobs), np.int64)
    facts = facts_of(given_jobs)
    curves["turn"] = turns = [place % 3 for place in range(len(given_jobs))]
    count = find_facts(curves, facts, 4, first_ms, last_ms, 2, slots, rows)
    for row in rows[:count].tolist():
        assert facts["rule"][row] == 4
        assert facts["until_ms"][row] > first_ms
    assert slots[:count].tolist() == [
        place
        for place, job in enumerate(given_jobs)
        if any(
            rule == 4 and a <= last_ms + (300_000 if turns[place] == 2 else 0) and first_ms < b
            for rule, a, b, _ in job.facts
        )
    ]


@given(near, near, rates)
def test_a_constant_rate_is_no_noise(start_ms: int, t_ms: int, rate: float) -> None:
    """A window inside one step holds exactly rate x window, however long the step has lasted."""
    steps = [(BEGINNING_MS, 0.0, 0.0, False), (start_ms - 400 * 24 * HOUR_MS, rate, rate, True)]
    filled, _ = run([t_ms], [Job(steps, {}, steps[1][0], 2**62)])
    assert filled.cost.tolist() == [[[rate * window_ms for window_ms in WINDOWS_MS]]]
    assert filled.cost.tolist() == filled.expected.tolist()
    assert filled.whole.all()


@given(st.integers(1, 7), st.floats(1e-3, 1.0))
def test_a_small_rate_after_a_great_one_keeps_its_digits(steps: int, rate: float) -> None:
    """What was before a window leaves no noise in it while its steps are few."""
    great = [(BEGINNING_MS, 0.0, 0.0, False), (NOON_MS - 30 * HOUR_MS, 1e12, 1e12, True)]
    small = [(NOON_MS - 1_800_000, rate, rate, True)]
    small += [(NOON_MS - 240_000 + k * 30_000, rate * (1 + k % 2), rate, True) for k in range(steps)]
    filled, _ = run([NOON_MS], [Job(great + small, {}, great[1][0], 2**62)])
    assert filled.expected[0, 0, 0] == pytest.approx(rate * 300_000, rel=1e-14)
    assert filled.expected[0, 0, 1] == pytest.approx(rate * 900_000, rel=1e-14)


@given(near, rates)
def test_what_is_over_leaves_exactly_nothing(end_ms: int, rate: float) -> None:
    """Once a window has no cost, it is zero and not almost zero."""
    steps = [
        (BEGINNING_MS, 0.0, 0.0, False),
        (end_ms - 777, rate, 1.0, True),
        (end_ms - 333, rate / 3, 3.0, True),
        (end_ms, 0.0, 0.0, False),
    ]
    job = Job(steps, {(end_ms - 333) // 60_000: rate / 7}, end_ms - 777, end_ms)
    filled, _ = run([end_ms + window_ms + 60_000 for window_ms in WINDOWS_MS], [job])
    for w in range(4):
        assert filled.cost[w, 0, w] == 0.0
        assert filled.expected[w, 0, w] == 0.0


@pytest.mark.parametrize("times", [[NOON_MS, NOON_MS], [NOON_MS, NOON_MS + 1, NOON_MS]])
def test_ticks_that_do_not_ascend_are_refused(times: list[int]) -> None:
    _, bad = run(times, [])
    assert bad == len(times) - 1


@st.composite
def seen(draw: st.DrawFn) -> tuple[list[naive_burn.Seen], int]:
    """A job's life on the grid of ticks: going on, then perhaps ended and emptying."""
    first = draw(st.integers(0, 300)) * 10_000 + NOON_MS
    tens = st.integers(-1, 100).map(lambda k: first + k * 10_000)
    ended_ms = draw(st.one_of(st.just(2**62), tens, st.integers(first - 10_000, first + 1_000_000)))
    step = draw(st.sampled_from([10_000, 10_000, 60_000, 600_000]))
    rows = []
    for k, bits in enumerate(draw(st.binary(min_size=1, max_size=150))):
        t_ms = first + k * step
        ended = t_ms >= ended_ms
        now = int(bits & 7 == 7) if ended else bits & 1
        cost = 0.0 if bits & 24 else 2.0
        rows.append(naive_burn.Seen(t_ms, now, bits >> 5 & 1 & (not ended), ended, cost, bool(bits & 64)))
    return rows, ended_ms


@given(st.lists(seen(), min_size=1, max_size=3), st.integers(1, 150))
def test_chosen_rows_equal_the_policy_in_words(
    lives: list[tuple[list[naive_burn.Seen], int]], cut: int
) -> None:
    """Whatever the ranges of ticks, and whichever line of the state a job has."""
    last = np.zeros(len(lives), LAST_ROW)
    for j, (rows, ended_ms) in enumerate(lives):
        found: list[bool] = []
        for part in (rows[:cut], rows[cut:]):
            shape = (len(part), 1)
            chosen = np.empty(shape, np.bool_)
            cost = np.zeros((*shape, 4))
            cost[:, 0, 3] = [row.window_cost for row in part]
            elapsed = np.zeros((*shape, 4), np.int64)
            elapsed[:, 0, 3] = [row.begun for row in part]
            count = choose_rows(
                np.array([row.t_ms for row in part], np.int64),
                np.array([[row.now + 0.2] for row in part]).reshape(shape),
                np.array([[row.expected - 0.2] for row in part]).reshape(shape),
                np.array([row.ended for row in part], np.bool_).reshape(shape),
                cost,
                elapsed,
                np.array([ended_ms], np.int64),
                np.array([len(lives) - 1 - j], np.int64),
                last,
                chosen,
            )
            assert count == chosen.sum()
            found += chosen[:, 0].tolist()
        assert found == naive_burn.chosen(rows, ended_ms)
