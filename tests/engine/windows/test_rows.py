"""Which burn rates are written, when, and what stands in their rows."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import BURN_RATES, SCHEMAS
from streams.engine.kernels.arrays import I64
from streams.engine.windows.burn_rows import BurnRows, Chosen, LastRow, RowPolicy
from streams.engine.windows.curves import CurveBook
from streams.engine.windows.figures import WindowFigures
from tests.engine.windows import random_curves
from tests.engine.windows.random_curves import HOUR_MS, NOON_MS, Made
from tests.engine.windows.test_curve import gpus
from tests.engine.windows.test_curves import book_of
from tests.property.profile import PROFILE

TICK_MS = 10_000


def burn_rows(
    times_ms: I64, job_ids: Sequence[str], figures: WindowFigures, chosen: Chosen, shard: int, version: int
) -> pa.Table:
    rows = BurnRows()
    rows.add(times_ms, job_ids, figures, chosen)
    assert rows.count == chosen.rows
    table = rows.drain(shard, version)
    assert table is not None
    assert rows.drain(shard, version) is None
    return table


def only(figures: WindowFigures, ticks: list[int], jobs: list[int]) -> Chosen:
    """Just these (ticks, jobs)."""
    flags = np.zeros(figures.shape, np.bool_)
    flags[ticks, jobs] = True
    return Chosen(flags, len(ticks))


def ticks_from(start_ms: int, count: int) -> np.ndarray:
    return start_ms + TICK_MS * np.arange(count, dtype=np.int64)


def written(policy: RowPolicy, book: CurveBook, times_ms: np.ndarray) -> list[tuple[int, str]]:
    """(seconds after noon, job) of each row."""
    chosen = policy.choose(times_ms, book.job_ids, book.figures(times_ms))
    ticks, jobs = np.nonzero(chosen.flags)
    assert len(ticks) == chosen.rows
    return [(int(times_ms[i] - NOON_MS) // 1000, book.job_ids[j]) for i, j in zip(ticks, jobs, strict=True)]


def test_a_job_that_goes_on_is_written_when_it_changes_and_each_minute() -> None:
    job = gpus((0, 1, 8), (1, 9, 16))
    start = job.paid[0][0] + 25_000  # begins at 25 s past the minute
    job = job._replace(
        lines=[{line: [(start, *i[0][1:]), *i[1:]] for line, i in job.lines[0].items()}],
        paid=[(start, job.paid[1][1])],
        declared=[(NOON_MS + 100_000, 5)],
    )
    book = book_of(job)
    found = written(RowPolicy(), book, ticks_from(NOON_MS - 60_000, 37))
    assert [at for at, _ in found] == [30, 60, 100, 120, 180, 240, 300]
    found = written(RowPolicy(), book, ticks_from(NOON_MS + 3_540_000, 13))
    assert [at for at, _ in found] == [3540, 3600, 3660]


def test_after_its_end_a_job_is_written_ever_more_rarely_until_nothing_is_left() -> None:
    end_ms = NOON_MS + 5_000
    job = gpus((-1, 1, 8))
    job = job._replace(
        lines=[{line: [(i[0][0], end_ms, *i[0][2:])] for line, i in job.lines[0].items()}],
        paid=[(job.paid[0][0], end_ms)],
        ended_ms=end_ms,
    )
    book, policy = book_of(job), RowPolicy()
    times = ticks_from(NOON_MS, 8 * 360)
    figures = book.figures(times)
    chosen = policy.choose(times, book.job_ids, figures)
    at_s = ((times[np.nonzero(chosen.flags)[0]] - NOON_MS) // 1000).tolist()
    minutes = [60 * k for k in range(1, 16)]
    tens = [600 * k for k in range(2, 6 * 6 + 1)]
    assert at_s == [0, 10, *minutes, *tens, 6 * 3600 + 60]
    table = burn_rows(times, book.job_ids, figures, chosen, 3, 4)
    assert table["usd_per_hour_6h"].to_pylist()[-2] > 0
    last = table.slice(len(table) - 1).to_pylist()[0]
    assert {last[name] for name in table.column_names if "usd" in name} == {Decimal("0E-9")}
    assert written(policy, book, ticks_from(NOON_MS + 8 * HOUR_MS, 700)) == []


def test_a_job_before_its_first_paid_instant_is_not_written() -> None:
    queued = gpus((5, 6, 8))
    policy = RowPolicy()
    assert written(policy, book_of(queued), ticks_from(NOON_MS, 30)) == []
    assert policy.dump() == []


def test_a_job_that_ended_without_a_cost_is_written_once_more() -> None:
    """Its last row would otherwise say for ever that it goes on."""
    job = gpus((0, 1, 8))._replace(lines=[], ended_ms=NOON_MS + HOUR_MS)
    found = written(RowPolicy(), book_of(job), ticks_from(NOON_MS + HOUR_MS - 10_000, 100))
    assert [at for at, _ in found] == [3590, 3600]


def test_costs_that_come_late_open_the_rows_of_an_ended_job_again() -> None:
    job = gpus((0, 1, 8))._replace(lines=[], ended_ms=NOON_MS + HOUR_MS)
    book, policy = book_of(job), RowPolicy()
    written(policy, book, ticks_from(NOON_MS + HOUR_MS - 10_000, 3))
    book.replace(gpus((0, 1, 8))._replace(ended_ms=NOON_MS + HOUR_MS).curve("j0"))
    found = written(policy, book, ticks_from(NOON_MS + HOUR_MS + 20_000, 6))
    assert [at for at, _ in found] == [3620, 3660]


@PROFILE
@given(
    st.lists(random_curves.made, min_size=1, max_size=3),
    random_curves.times,
    st.lists(st.integers(1, 40), max_size=5),
)
def test_neither_the_ranges_nor_a_move_of_the_shard_show(
    jobs: list[Made], start_ms: int, cuts: list[int]
) -> None:
    book = book_of(*jobs)
    count = sum(cuts) + 20
    times = ticks_from(start_ms // TICK_MS * TICK_MS, count)
    want = written(RowPolicy(), book, times)
    found: list[tuple[int, str]] = []
    policy, at = RowPolicy(), 0
    for cut in [*cuts, 20]:
        found += written(policy, book, times[at : at + cut])
        at += cut
        moved = RowPolicy()
        moved.load(policy.dump())
        policy = moved
    assert found == want


def test_the_state_follows_the_job_whatever_its_place() -> None:
    book, policy = book_of(gpus((0, 9, 8)), gpus((0, 9, 16)), gpus((0, 9, 24))), RowPolicy()
    assert len(written(policy, book, ticks_from(NOON_MS, 1))) == 3
    book.drop("j0")
    policy.drop("j0")
    book.replace(gpus((0, 9, 1)).curve("j9"))
    assert written(policy, book, ticks_from(NOON_MS + 10_000, 2)) == [(10, "j9")]
    assert [row.job_id for row in policy.dump()] == ["j1", "j2", "j9"]
    for job_id in book.job_ids:
        book.drop(job_id)
        policy.drop(job_id)
    policy.drop("never known")
    assert written(policy, book, ticks_from(NOON_MS + 60_000, 2)) == []
    assert policy.dump() == []


def test_many_jobs_have_room() -> None:
    book, policy = book_of(*(gpus((0, 9, k)) for k in range(1, 101))), RowPolicy()
    assert len(written(policy, book, ticks_from(NOON_MS, 1))) == 100
    assert written(policy, book, ticks_from(NOON_MS + 10_000, 5)) == []
    assert policy.dump()[0] == LastRow("j0", 2_990_000_000, 2_990_000_000, 1)


def test_figures_of_other_jobs_are_refused() -> None:
    figures = book_of(gpus((0, 9, 8))).figures(ticks_from(NOON_MS, 2))
    with pytest.raises(ValueError, match="2 ticks and 2 jobs"):
        RowPolicy().choose(ticks_from(NOON_MS, 2), ("a", "b"), figures)


def test_a_row_is_the_contracts() -> None:
    job = gpus((-1, 1, 8), (1, 2, 16))._replace(declared=[(NOON_MS, 10**10)])
    book = book_of(job, job)
    times = ticks_from(NOON_MS + 300_000, 2)
    figures = book.figures(times)
    table = burn_rows(times, book.job_ids, figures, only(figures, [1], [1]), 7, 8)
    assert table.schema == SCHEMAS[BURN_RATES]
    [row] = table.to_pylist()
    assert int(row.pop("time").timestamp() * 1000) == NOON_MS + 310_000
    expected = 8 * 2.99 * (900 - 310) + 10 * 310  # dollars per hour x s
    assert row.pop("ratio_15m") == pytest.approx(8 * 2.99 * 900 / expected)
    assert row == {
        "job_id": "j1",
        "usd_per_hour": Decimal("23.920000000"),
        "usd_per_hour_15m": Decimal("23.920000000"),
        "usd_per_hour_1h": Decimal("23.920000000"),
        "usd_per_hour_6h": Decimal("23.920000000"),
        "expected_usd_per_hour": Decimal("10.000000000"),
        "usd_per_hour_now": Decimal("23.920000000"),
        "shard": 7,
        "version": 8,
    }


def test_rows_of_few_and_of_all_jobs_keep_their_names_together() -> None:
    jobs = [gpus((0, 5, count)) for count in range(1, 21)]
    book, reversed_book = book_of(*jobs), book_of(*jobs[::-1])
    times = ticks_from(NOON_MS + 60_000, 2)
    rows = BurnRows()
    wanted: list[tuple[str, float]] = []
    for each, tick, of in (
        (book, 0, [7]),
        (book, 0, [*range(20)]),
        (reversed_book, 1, [0, 5, 19]),
        (reversed_book, 1, [2]),
    ):
        figures = each.figures(times)
        rows.add(times, each.job_ids, figures, only(figures, [tick] * len(of), of))
        wanted += [(f"j{job}", 2.99 * (job + 1 if each is book else 20 - job)) for job in of]
    table = rows.drain(0, 1)
    assert table is not None
    assert table["job_id"].to_pylist() == [job_id for job_id, _ in wanted]
    rates = [float(rate) for rate in table["usd_per_hour_now"].to_pylist()]
    assert rates == pytest.approx([rate for _, rate in wanted])


def test_money_is_rounded_to_nano_dollars_and_capped() -> None:
    figures = WindowFigures.empty(1, 3)
    for array in figures:
        array[:] = 0
    figures.now_rate[0] = [1.5, 2.5, 1e30]
    everything = only(figures, [0, 0, 0], [0, 1, 2])
    table = burn_rows(ticks_from(NOON_MS, 1), ("a", "b", "c"), figures, everything, 0, 0)
    assert table["usd_per_hour_now"].to_pylist() == [
        Decimal("0.000000002"),
        Decimal("0.000000002"),
        Decimal("999999999.999999999"),
    ]
    assert table["ratio_15m"].to_pylist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("late_ms", "last_s"), [(0, 18 * 60), (1, 18 * 60), (-1, 17 * 60)])
def test_the_quarter_of_an_hour_after_an_end_is_closed(late_ms: int, last_s: int) -> None:
    end_ms = NOON_MS + 180_000 + late_ms
    book = book_of(gpus((-1, 0, 8))._replace(ended_ms=end_ms))
    found = written(RowPolicy(), book, ticks_from(NOON_MS, 119))
    assert found[-1] == (last_s, "j0")


def test_a_forgotten_job_begins_anew_on_a_line_of_its_own() -> None:
    """Even where the order of the jobs has not changed since."""
    book, policy = book_of(gpus((0, 9, 8))), RowPolicy()
    assert len(written(policy, book, ticks_from(NOON_MS, 3))) == 1
    policy.drop("j0")
    other = LastRow("other", 5, 6, 1)
    policy.load([other])
    assert len(written(policy, book, ticks_from(NOON_MS + 30_000, 1))) == 1
    assert policy.dump() == [LastRow("j0", 8 * 2_990_000_000, 8 * 2_990_000_000, 1), other]


def test_the_row_of_zeros_is_owed_by_an_owner_that_knows_no_rows() -> None:
    late = ticks_from(NOON_MS + 7 * HOUR_MS, 3)
    for job, owed in ((gpus((0, 1, 8)), 40), (gpus(), 0)):  # one that was paid, one that never was
        book = book_of(*[job._replace(ended_ms=NOON_MS + HOUR_MS)] * 40)
        fresh, restored = RowPolicy(), RowPolicy()
        for job_id in book.job_ids:
            restored.forget_row(job_id)
        assert restored.dump() == []
        assert written(fresh, book, late) == []
        assert len(written(restored, book, late)) == owed
        assert written(restored, book, late + 60_000) == []


def test_a_restored_job_that_a_late_event_ended_before_it_was_paid_has_a_row_of_zeros() -> None:
    """The owner before wrote what it cost then; without another row that would stand."""
    book, policy = book_of(gpus()._replace(ended_ms=NOON_MS)), RowPolicy()
    policy.forget_row("j0")
    assert written(policy, book, ticks_from(NOON_MS + 60_000, 3)) == [(60, "j0")]
