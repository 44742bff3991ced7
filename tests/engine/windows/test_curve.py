"""Curves against the intervals they are built from, instant by instant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from schemas.durations import BEGINNING_MS, NEVER_MS
from streams.engine.timeline.lines import Line
from streams.engine.windows.curve import MeteredRun
from tests.engine.windows import random_curves
from tests.engine.windows.random_curves import HOUR_MS, NOON_MS, PRICES, UNPRICED, Made, columns, in_force
from tests.property.profile import PROFILE

GPU = Line("n", "running", PRICES[0])
USD = 10**9
NOBODY = Made([], [], [], {}, [], [])


def gpus(*intervals: tuple[float, float, int]) -> Made:
    """One attempt: (start, end, GPUs) at $2.99 per GPU-hour, in hours before noon."""
    spans = [
        (NOON_MS + int(a * HOUR_MS), NOON_MS + int(b * HOUR_MS), count * 1000, 0) for a, b, count in intervals
    ]
    return NOBODY._replace(lines=[{GPU: spans}], paid=[(a, b) for a, b, _, _ in spans])


@PROFILE
@given(random_curves.made, random_curves.times)
def test_a_curve_says_at_each_instant_what_its_intervals_say(job: Made, at_ms: int) -> None:
    curve = job.curve()
    step, quoted = in_force(curve, at_ms), job.quoted()
    assert columns(curve).cost_rate[step] == pytest.approx(float(job.rate_at(at_ms)), rel=1e-12, abs=1e-11)
    assert columns(curve).expected_rate[step] == pytest.approx(
        float(job.expected_at(at_ms, quoted)), rel=1e-12, abs=1e-11
    )
    assert columns(curve).paid[step] == job.is_paid(at_ms)
    assert curve.first_paid_ms == min((a for a, b in job.paid_spans() if a < b), default=-1)
    assert curve.unpriced_from_ms == job.unpriced_from_ms()
    assert (curve.quoted_nano_per_hour is None) == (quoted is None)
    if quoted is not None:
        assert curve.quoted_nano_per_hour == pytest.approx(float(quoted), rel=1e-12, abs=1e-3)
    assert curve.ended_ms == job.ended_ms


@PROFILE
@given(random_curves.made)
def test_a_curve_is_well_formed(job: Made) -> None:
    """Steps ascend and differ; nothing is expected of time that is not paid; all that ends leaves exactly nothing."""
    curve = job.curve()
    assert columns(curve).from_ms[0] == BEGINNING_MS
    assert (np.diff(columns(curve).from_ms) > 0).all()
    rows = [step[1:] for step in curve.steps]
    assert all(a != b for a, b in itertools.pairwise(rows))
    assert not columns(curve).expected_rate[~columns(curve).paid].any()
    assert rows[0] == rows[-1] == (0.0, 0.0, False)
    assert (np.diff(columns(curve).lump_minute) > 0).all()
    assert (columns(curve).lump_cost > 0).all()


@PROFILE
@given(random_curves.made, random_curves.times, random_curves.times)
def test_detail_before_since_is_left_out_and_nothing_after_it_changes(
    job: Made, since_ms: int, at_ms: int
) -> None:
    whole, cut = job.curve(), job.curve(since_ms=since_ms)
    assert len(columns(cut).from_ms) <= len(columns(whole).from_ms) + 1
    assert (columns(cut).from_ms[1:] >= since_ms).all()
    # Whether amounts come again is looked at ten minutes late.
    assert (columns(cut).lump_minute * 60_000 + 60_000 > since_ms - 600_000).all()
    at_ms = max(at_ms, since_ms)
    a, b = in_force(whole, at_ms), in_force(cut, at_ms)
    for name in ("cost_rate", "expected_rate", "paid"):
        assert getattr(columns(whole), name)[a] == getattr(columns(cut), name)[b]
    for name in ("first_paid_ms", "unpriced_from_ms", "quoted_nano_per_hour"):
        assert getattr(whole, name) == getattr(cut, name)


def test_the_quoted_rate_waits_for_a_price_of_all_gpus() -> None:
    """Two nodes, one of which has a price an hour later than the other: only then is the rate known."""
    other = {
        Line("m", "running", UNPRICED): [(NOON_MS, NOON_MS + HOUR_MS, 8000, 0)],
        Line("m", "running", PRICES[0]): [(NOON_MS + HOUR_MS, NOON_MS + 9 * HOUR_MS, 8000, 0)],
    }
    job = gpus((0, 9, 8))
    curve = job._replace(lines=[*job.lines, other]).curve()
    assert curve.quoted_nano_per_hour == pytest.approx(16 * 2.99 * USD)
    assert curve.unpriced_from_ms == NOON_MS


def test_a_free_price_is_a_price() -> None:
    job = gpus((0, 9, 8))
    free = Line("", "running", PRICES[4])
    curve = job._replace(
        lines=[
            {free: job.lines[0][GPU]},
            {Line("", "running", PRICES[3]): [(NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS, 1000, 0)]},
        ]
    ).curve()
    assert curve.quoted_nano_per_hour == 0.0


def test_without_a_price_nothing_is_quoted() -> None:
    job = gpus((0, 9, 8))
    curve = job._replace(lines=[{Line("n", "running", UNPRICED): job.lines[0][GPU]}]).curve()
    assert curve.quoted_nano_per_hour is None
    assert not columns(curve).expected_rate.any()


def test_a_declared_rate_holds_from_its_event_on_and_a_plan_while_it_lasts() -> None:
    job = gpus((0, 9, 8))._replace(
        declared=[(NOON_MS + 2 * HOUR_MS, 7 * USD), (NOON_MS + 2 * HOUR_MS, 6 * USD)],
        planned=[(NOON_MS + 4 * HOUR_MS, NOON_MS + 5 * HOUR_MS, 100 * USD)],
    )
    curve = job.curve()
    at = [
        columns(curve).expected_rate[in_force(curve, NOON_MS + h * HOUR_MS)] * HOUR_MS / USD
        for h in range(10)
    ]
    assert at == pytest.approx([8 * 2.99, 8 * 2.99, 6, 6, 100, 6, 6, 6, 6, 0])


def test_metered_runs_overlap_and_add_up() -> None:
    runs = [
        MeteredRun(NOON_MS, NOON_MS + 3000, 2.0, False),
        MeteredRun(NOON_MS + 1000, NOON_MS + 4000, 3.0, True),
    ]
    curve = NOBODY._replace(seconds=runs).curve()
    assert (columns(curve).from_ms[1:] - NOON_MS).tolist() == [0, 1000, 3000, 4000]
    assert columns(curve).cost_rate.tolist() == [0.0, 2.0, 5.0, 3.0, 0.0]
    assert columns(curve).paid.tolist() == [False, True, True, True, False]
    assert curve.unpriced_from_ms == NOON_MS + 1000


def test_a_job_of_which_nothing_is_known_costs_nothing() -> None:
    curve = NOBODY.curve()
    assert (curve.first_paid_ms, curve.unpriced_from_ms, curve.quoted_nano_per_hour) == (-1, NEVER_MS, None)
    assert columns(curve).from_ms.tolist() == [BEGINNING_MS]
