"""The book of curves: figures from random segments, growth, replacement and loss of jobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.durations import NEVER_MS
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.windows.curve import MeteredRun
from streams.engine.windows.curves import CurveBook
from streams.engine.windows.figures import WindowFigures, per_hour, ratios
from tests.engine.windows import random_curves
from tests.engine.windows.random_curves import HOUR_MS, NOON_MS, PRICES, Made
from tests.engine.windows.test_curve import GPU, gpus
from tests.property.profile import PROFILE

ids = st.sampled_from(["a", "b", "c", "d"])
HOURLY = [NOON_MS + hour * HOUR_MS + 30_000 for hour in range(-8, 1)]


def at(book: CurveBook, *times_ms: int) -> WindowFigures:
    return book.figures(np.array(times_ms, np.int64))


def book_of(*jobs: Made) -> CurveBook:
    book = CurveBook()
    for number, job in enumerate(jobs):
        book.replace(job.curve(f"j{number}"))
    return book


def fresh_book(book: CurveBook, standing: dict[str, Made]) -> CurveBook:
    """The same jobs in the same order, each put once."""
    fresh = CurveBook()
    for job_id in book.job_ids:
        fresh.replace(standing[job_id].curve(job_id))
    return fresh


@PROFILE
@given(st.lists(random_curves.made, min_size=1, max_size=2), random_curves.ticks)
def test_figures_equal_exact_integration_of_the_intervals(jobs: list[Made], ticks: list[int]) -> None:
    figures = at(book_of(*jobs), *ticks)
    for j, job in enumerate(jobs):
        noise = job.noise()
        for i, t_ms in enumerate(ticks):
            if job.is_paid(t_ms) or not job.seconds:  # else: see the test of the newest sample below
                assert figures.now_rate[i, j] == pytest.approx(
                    float(job.rate_at(t_ms) * HOUR_MS), rel=1e-12, abs=1e-3
                )
            assert figures.ended[i, j] == (t_ms >= job.ended_ms)
            for w, window_ms in enumerate(WINDOWS_MS):
                want = job.figure(t_ms, window_ms)
                assert figures.cost_nano[i, j, w] == pytest.approx(float(want.cost), rel=1e-12, abs=noise)
                assert figures.expected_nano[i, j, w] == pytest.approx(
                    float(want.expected), rel=1e-12, abs=noise
                )
                assert figures.elapsed_ms[i, j, w] == want.elapsed_ms
                assert figures.paid_whole[i, j, w] == want.paid_whole


def test_what_is_sampled_goes_on_for_two_minutes_after_its_newest_sample() -> None:
    run = MeteredRun(NOON_MS, NOON_MS + 60_000, 2.5e6, False)
    job = Made(lines=[], paid=[], seconds=[run], lumps={}, declared=[], planned=[], ended_ms=NEVER_MS)
    times = [NOON_MS + s * 1000 for s in (-10, 0, 59, 60, 179, 180)]
    rate = 2.5e6 * HOUR_MS
    assert at(book_of(job), *times).now_rate[:, 0].tolist() == [0, rate, rate, rate, rate, 0]
    assert at(book_of(job), *times).expected_rate[:, 0].tolist() == [0, rate, rate, rate, rate, 0]
    over = job._replace(ended_ms=NOON_MS + 60_000)
    assert at(book_of(over), *times).now_rate[:, 0].tolist() == [0, rate, rate, 0, 0, 0]


@PROFILE
@given(random_curves.made, random_curves.times, random_curves.ticks)
def test_a_curve_without_its_past_has_the_same_windows(job: Made, since_ms: int, ticks: list[int]) -> None:
    later = [t_ms for t_ms in ticks if t_ms >= since_ms + WINDOWS_MS[-1] + 60_000]
    whole, cut = CurveBook(), CurveBook()
    whole.replace(job.curve())
    cut.replace(job.curve(since_ms=since_ms))
    a, b = at(whole, *later), at(cut, *later)
    np.testing.assert_allclose(a.cost_nano, b.cost_nano, rtol=1e-12, atol=job.noise())
    np.testing.assert_allclose(a.expected_nano, b.expected_nano, rtol=1e-12, atol=job.noise())
    for name in ("now_rate", "expected_rate", "ended", "facts", "elapsed_ms", "paid_whole", "ended_ms"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@PROFILE
@given(
    st.lists(st.tuples(ids, st.one_of(st.none(), random_curves.made)), max_size=25),
    st.integers(0, 3),
)
def test_any_order_of_puts_and_drops_gives_the_figures_of_a_new_book(
    moves: list[tuple[str, Made | None]], copies: int
) -> None:
    """Replacement, growth, compaction and gaps that close do not show."""
    book = CurveBook()
    standing: dict[str, Made] = {}
    for name, job in moves:
        for copy in range(copies + 1):
            job_id = f"{name}{copy}"
            if job is not None:
                book.replace(job.curve(job_id))
                standing[job_id] = job
            elif job_id in standing:
                book.drop(job_id)
                del standing[job_id]
    assert len(book) == len(standing)
    assert set(book.job_ids) == standing.keys()
    assert all(job_id in book for job_id in standing)
    for a, b in zip(at(book, *HOURLY), at(fresh_book(book, standing), *HOURLY), strict=True):
        np.testing.assert_array_equal(a, b)


@PROFILE
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), min_size=40, max_size=120))
def test_curves_that_grow_and_shrink_keep_to_their_own_ranges(moves: list[tuple[int, int]]) -> None:
    """Ranges are given up, used again and moved together; a curve of no length is a job that goes."""
    book = CurveBook()
    standing: dict[str, Made] = {}
    for number, length in moves:
        job_id = f"j{number}"
        if length:
            spans = [(-8 + k / 4, -8 + (k + 1) / 4, number * 100 + length + k) for k in range(length)]
            standing[job_id] = gpus(*spans)._replace(
                lumps={NOON_MS // 60_000 - k: 1.0 for k in range(length)}
            )
            book.replace(standing[job_id].curve(job_id))
        elif standing.pop(job_id, None) is not None:
            book.drop(job_id)
    for a, b in zip(at(book, *HOURLY), at(fresh_book(book, standing), *HOURLY), strict=True):
        np.testing.assert_array_equal(a, b)


@given(st.integers(1, 512), st.integers(0, 3), st.integers(0, 8 * 360))
def test_a_constant_rate_burns_at_that_rate_with_ratio_one(count: int, price: int, tens: int) -> None:
    """In every window, from the first tick on: what is expected is what is quoted."""
    price = (0, 1, 3, 5)[price]
    job = gpus((-1, 10_000, count))
    intervals = job.lines[0][GPU]
    job = job._replace(lines=[{GPU._replace(price=PRICES[price]): intervals}])
    t_ms = NOON_MS - HOUR_MS + 10_000 + tens * 10_000
    figures = at(book_of(job), t_ms)
    rate = count * PRICES[price].usd_nano * HOUR_MS * 1000 / PRICES[price].divisor
    assert figures.now_rate[0, 0] == pytest.approx(rate, rel=1e-12)
    assert figures.expected_rate[0, 0] == pytest.approx(rate, rel=1e-12)
    windows = figures.elapsed_ms[0, 0] >= np.array(WINDOWS_MS)
    np.testing.assert_allclose(ratios(figures.cost_nano, figures.expected_nano)[0, 0], 1.0, rtol=1e-12)
    burn = per_hour(figures.cost_nano, figures.elapsed_ms)[0, 0]
    np.testing.assert_allclose(burn[~windows], rate, rtol=1e-12)
    whole = figures.paid_whole[0, 0]
    np.testing.assert_allclose(burn[whole], rate, rtol=1e-12)
    assert (whole == windows).all()


def test_three_times_the_gpus_are_three_times_the_ratio_once_the_window_is_full() -> None:
    job = gpus((-20, -1, 8), (-1, 20, 24))
    figures = at(book_of(job), NOON_MS, NOON_MS + 5 * HOUR_MS)
    found = ratios(figures.cost_nano, figures.expected_nano)[:, 0]
    assert found[0] == pytest.approx([3, 3, 3, (5 + 3) / 6])
    assert found[1] == pytest.approx([3, 3, 3, 3])


def test_before_the_first_paid_instant_there_is_no_rate() -> None:
    figures = at(book_of(gpus((0, 1, 8))), NOON_MS - 10_000, NOON_MS, NOON_MS + 10_000)
    assert figures.elapsed_ms[:, 0, 3].tolist() == [0, 0, 10_000]
    burn = per_hour(figures.cost_nano, figures.elapsed_ms)[:, 0, 0]
    assert burn.tolist() == pytest.approx([0, 0, 8 * 2.99e9])
    assert figures.now_rate[:, 0].tolist() == pytest.approx([0, 8 * 2.99e9, 8 * 2.99e9])


def test_traffic_counts_whole_as_soon_as_its_minute_has_begun() -> None:
    minute = NOON_MS // 60_000
    job = gpus()._replace(lumps={minute: 6.0, minute - 1: 1.0})
    figures = at(book_of(job), NOON_MS - 10_000, NOON_MS, NOON_MS + 50_000)
    assert figures.cost_nano[:, 0, 0].tolist() == [1.0, 7.0, 7.0]


def test_the_minute_at_the_far_edge_counts_in_proportion() -> None:
    """Traffic and time alike, wherever in the minute they were."""
    minute = NOON_MS // 60_000
    at_the_end_of_it = (NOON_MS + 50_000, NOON_MS + 60_000, 1000, 0)
    job = gpus()._replace(lumps={minute: 6.0}, lines=[{GPU: [at_the_end_of_it]}])
    five = WINDOWS_MS[0]
    figures = at(book_of(job), *(NOON_MS + five + k * 10_000 for k in range(7)))
    cost = 6.0 + 2.99e9 / 360
    assert figures.cost_nano[:, 0, 0].tolist() == pytest.approx([cost * (6 - k) / 6 for k in range(7)])


def test_ticks_must_ascend_and_a_job_must_be_known() -> None:
    book = book_of(gpus((0, 1, 8)))
    with pytest.raises(ValueError, match="does not follow"):
        at(book, NOON_MS, NOON_MS)
    with pytest.raises(KeyError):
        book.drop("other")


def test_an_empty_book_has_empty_figures() -> None:
    assert at(CurveBook(), NOON_MS, NOON_MS + 10_000).shape == (2, 0)
    assert at(book_of(gpus((0, 1, 8)))).shape == (0, 1)


def test_the_order_of_jobs_is_the_same_object_until_a_job_comes_or_goes() -> None:
    """Whoever keeps an index by job may compare by identity."""
    book = book_of(gpus((0, 1, 8)), gpus((0, 2, 8)))
    order = book.job_ids
    book.replace(gpus((0, 3, 8)).curve("j1"))
    assert book.job_ids is order
    book.drop("j0")
    assert book.job_ids == ("j1",)


def test_a_book_is_as_large_as_the_jobs_in_it() -> None:
    """However many have come and gone."""
    book = CurveBook()
    curve = gpus((0, 1, 8), (1, 2, 16))._replace(lumps={NOON_MS // 60_000: 1.0}).curve
    for number in range(2_000):
        book.replace(curve(f"j{number}"))
        if number >= 10:
            book.drop(f"j{number - 10}")
    assert len(book) == 10
    assert len(book._steps.rows) < 200
    assert len(book._lumps.rows) < 50
    assert len(book._curves) < 50
