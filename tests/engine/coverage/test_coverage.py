"""Coverage against a dict of seconds, and the guards of its input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import GpuEvent
from schemas.tables import JOB_USAGE_MINUTES, UNATTRIBUTED_MINUTES
from streams.engine.coverage import coverage as module
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.usage_table import usage_tables
from tests.engine.coverage.naive import NaiveCoverage, RowKey
from tests.engine.coverage.samples import T0_S, histories, sample

HORIZON_S = 20


def rows_by_key(coverage: Coverage, rows: np.ndarray) -> dict[RowKey, tuple[int, ...]]:
    """The figures of rows under their names."""
    columns = coverage.usage(rows)
    figures = (
        columns.sampled_gpu_s,
        columns.productive_gpu_ms,
        columns.sm_sampled_gpu_s,
        columns.sm_gpu_ms,
        columns.tensor_sampled_gpu_s,
        columns.tensor_gpu_ms,
        columns.memory_used_mib_max,
        columns.power_w_max,
    )
    keys = [
        (*coverage.holder(number), minute)
        for number, minute in zip(columns.holder.tolist(), columns.minute.tolist(), strict=True)
    ]
    return dict(zip(keys, zip(*(column.tolist() for column in figures), strict=True), strict=True))


def every_row(coverage: Coverage) -> np.ndarray:
    """The rows of all jobs of the strategies."""
    holders = [
        holder.number for holder in sorted(coverage.holders(), key=lambda each: (each.job_id, each.attempt))
    ]
    return coverage.rows_of(holders)


def check_equal(coverage: Coverage, twin: NaiveCoverage) -> None:
    """All rows and counts."""
    rows = every_row(coverage)
    want = twin.rows()
    assert {key: row for key, row in rows_by_key(coverage, rows).items() if row[0]} == {
        key: capped(row) for key, row in want.items()
    }
    rows = rows[~coverage.are_idle(rows)]
    keys = list(rows_by_key(coverage, rows))
    counts = dict(zip(keys, coverage.counts(rows).tolist(), strict=True))
    assert {key: line for key, line in counts.items() if any(line)} == twin.counts()
    gpus = coverage.store.holders["gpus"]
    assert all(gpus[holder.number] == len(holder.gpus) for holder in coverage.holders())


def capped(row: tuple[int, ...]) -> tuple[int, ...]:
    """Memory and power end at what a kernel keeps."""
    return (*row[:6], *(min(value, 9 * 10**18) for value in row[6:]))


@given(histories())
def test_rows_equal_a_dict_of_seconds(batches: list[list[GpuEvent]]) -> None:
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    for batch in batches:
        before = twin.rows(), twin.late
        verdicts = [twin.fold(record) for record in batch]
        folded = coverage.fold(batch)
        assert folded.late == twin.late - before[1]
        assert folded.all_late.tolist() == [late for late, _ in verdicts]
        assert folded.touched.tolist() == [i for i, (_, covers) in enumerate(verdicts) if covers]
        dirty = rows_by_key(coverage, coverage.drain_dirty())
        after = twin.rows()
        assert dirty == {key: capped(row) for key, row in after.items() if before[0].get(key) != row}
    check_equal(coverage, twin)


@settings(max_examples=30)
@given(histories())
def test_batches_and_calls_of_any_size_give_the_same(batches: list[list[GpuEvent]]) -> None:
    one, many = Coverage(HORIZON_S), Coverage(HORIZON_S)
    records = [record for batch in batches for record in batch]
    whole = one.fold(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CELLS_PER_CALL", 1)
        parts = many.fold(records)
    assert whole.late == parts.late
    assert rows_by_key(one, every_row(one)) == rows_by_key(many, every_row(many))


def test_a_repeated_sample_dirties_nothing() -> None:
    coverage = Coverage()
    coverage.fold([sample(100, 10)])
    assert len(coverage.drain_dirty()) == 1
    coverage.fold([sample(100, 10), sample(95, 5, source="y", util_ratio=[0.5])])
    assert len(coverage.drain_dirty()) == 0


def test_late_by_one_second_and_just_in_time() -> None:
    coverage = Coverage(late_horizon_s=600)
    coverage.fold([sample(1000, 1)])
    # The newest second is 999, so one that begins at 399 is in time.
    assert coverage.fold([sample(400, 1)]).all_late.tolist() == [False]
    assert coverage.fold([sample(399, 1)]).all_late.tolist() == [True]
    assert coverage.fold([sample(399, 1, job_id="")]).all_late.tolist() == [False]
    assert coverage.fold([sample(1000, 1, job_id="")]).all_late.tolist() == [False]
    assert coverage.fold([sample(399, 1, job_id="", attempt=2)]).all_late.tolist() == [True]


def test_a_record_is_late_only_if_all_its_gpus_are() -> None:
    coverage = Coverage(late_horizon_s=10)
    coverage.fold([sample(100, 1)])
    folded = coverage.fold([sample(50, 1, gpus=["g", "h"], util_ratio=[1.0, 1.0])])
    assert (folded.late, folded.all_late.tolist(), folded.touched.tolist()) == (1, [False], [0])


def test_a_gpu_named_twice_in_a_long_record_counts_once_with_its_largest_value() -> None:
    coverage = Coverage(late_horizon_s=600)
    folded = coverage.fold([sample(3600, 3600, gpus=["g", "g"], util_ratio=[0.25, 0.75])])
    assert folded.late == 0
    columns = coverage.usage(coverage.drain_dirty())
    assert int(columns.sampled_gpu_s.sum()) == 3600
    assert int(columns.productive_gpu_ms.sum()) == 3600 * 750


def test_a_second_without_a_plane_value_is_free_though_its_cell_held_an_older_one() -> None:
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    batch = [sample(30, 30, sm_ratio=[1.0]), sample(60, 30), sample(60, 20, sm_ratio=[0.5])]
    for record in batch:
        coverage.fold([record])
        twin.fold(record)
    check_equal(coverage, twin)


@pytest.mark.parametrize("gap_s", [1, HORIZON_S - 1, HORIZON_S, HORIZON_S + 1, 500])
def test_a_gap_is_not_covered_by_what_the_ring_held_before(gap_s: int) -> None:
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    last = 100 + gap_s + 1
    batch = [sample(100, 100, sm_ratio=[1.0]), sample(last, 1), sample(last, HORIZON_S, sm_ratio=[0.5])]
    for record in batch:
        coverage.fold([record])
        twin.fold(record)
    check_equal(coverage, twin)


def test_counts_do_not_wrap_around() -> None:
    coverage = Coverage()
    for part in range(65):
        gpus = [f"{part}-{k}" for k in range(1024)]
        coverage.fold([sample(60, 1, gpus=gpus, util_ratio=[0.0] * 1024)])
    rows = coverage.minute_rows("j", 1, (T0_S + 59) // 60)
    assert int(coverage.counts(rows).max()) == 65_535
    assert int(coverage.usage(rows).sampled_gpu_s[0]) == 65 * 1024


def test_rows_of_a_range_and_of_one_minute() -> None:
    coverage = Coverage()
    coverage.fold([sample(k * 60, 1) for k in range(200)] + [sample(k * 60, 1, node="m") for k in range(3)])
    holders = coverage.holders_of("j", 1)
    assert [coverage.holder(number) for number in holders] == [("j", 1, "n"), ("j", 1, "m")]
    first = (T0_S - 1) // 60
    for lo, hi in ((first, first + 2), (first + 1, first + 150), (first + 500, first + 501)):
        minutes = coverage.usage(coverage.rows_of(holders, lo, hi)).minute.tolist()
        both = [m for m in range(lo, hi) if m < first + 200], [m for m in range(lo, hi) if m < first + 3]
        assert minutes == both[0] + both[1]
    assert len(coverage.minute_rows("j", 1, first)) == 2
    assert len(coverage.minute_rows("j", 2, first)) == 0


@given(histories())
def test_rows_of_pairs_are_those_of_a_dict(batches: list[list[GpuEvent]]) -> None:
    coverage = Coverage()
    for batch in batches:
        coverage.fold(batch)
    holders = [number for job_id in coverage.jobs() for number in coverage.holders_of(job_id, 1)]
    rows = coverage.rows_of(holders)
    usage = coverage.usage(rows)
    known = dict(
        zip(zip(usage.holder.tolist(), usage.minute.tolist(), strict=True), rows.tolist(), strict=True)
    )
    asked = [
        *known,
        *((number, minute) for number in holders for minute in range(T0_S // 60 - 3, T0_S // 60 + 3)),
    ]
    found, sampled_gpu_s = coverage.find_rows(*np.array(asked, np.int64).reshape(-1, 2).T.copy())
    assert found.tolist() == [known.get(pair, -1) for pair in asked]
    seconds = dict(zip(rows.tolist(), usage.sampled_gpu_s.tolist(), strict=True))
    assert sampled_gpu_s.tolist() == [seconds.get(row, 0) for row in found.tolist()]


def test_dropped_counts_are_not_read_as_zero() -> None:
    coverage = Coverage()
    coverage.fold([sample(60, 1)])
    coverage.drop_counts("j", 1)
    coverage.fold([sample(120, 1)])
    rows = coverage.rows_of(coverage.holders_of("j", 1))
    assert coverage.usage(rows).sampled_gpu_s.tolist() == [1, 1]
    with pytest.raises(ValueError, match="dropped"):
        coverage.counts(rows)


def test_counts_dropped_before_the_first_sample_are_never_kept() -> None:
    coverage = Coverage()
    coverage.drop_counts("j", 1)
    coverage.fold([sample(60, 1), sample(60, 1, attempt=2)])
    with pytest.raises(ValueError, match="dropped"):
        coverage.counts(coverage.rows_of(coverage.holders_of("j", 1)))
    assert coverage.counts(coverage.rows_of(coverage.holders_of("j", 2))).sum() == 1


@pytest.mark.parametrize(
    "record",
    [
        sample(0, 1, util_ratio=[1.5]),
        sample(0, 1, util_ratio=[-0.1]),
        sample(0, 1, util_ratio=[float("nan")]),
        sample(0, 1, sm_ratio=[2.0]),
        sample(0, 1, util_ratio=[0.5, 0.5]),
        sample(0, 0),
        sample(2**62 // 1000, 1),
    ],
)
def test_what_the_decoder_refuses_never_reaches_a_kernel(record: GpuEvent) -> None:
    with pytest.raises(ValueError, match=r"out of range|outside|not a number|unequal"):
        Coverage().fold([record])


def test_an_unknown_holder_is_refused() -> None:
    coverage = Coverage()
    coverage.fold([sample(0, 1)])
    coverage.forget(["j"])
    for number in (0, 1, -1):
        with pytest.raises(KeyError):
            coverage.holder(number)


def test_gpus_without_a_job_are_kept_one_by_one_until_no_sample_reaches_them() -> None:
    coverage, first = Coverage(late_horizon_s=600), T0_S // 60
    coverage.fold([sample(1240, 60, job_id="", gpus=["a", "b"], util_ratio=[0.5, 0.0])])
    coverage.fold([sample(1240, 60, job_id="", gpus=["b"], util_ratio=[1.0], source="other")])
    coverage.fold([sample(9040, 60, job_id="", node="1:n", gpus=["a"], util_ratio=[0.25])])
    coverage.fold([sample(1240, 60)])
    tables = usage_tables(coverage, coverage.drain_dirty(), 0, 1)
    found = {
        (row["node"], row["gpu"], row["sampled_s"], row["productive_ms"])
        for row in tables[UNATTRIBUTED_MINUTES].to_pylist()
    }
    assert found == {("n", "a", 60, 30_000), ("n", "b", 60, 60_000), ("1:n", "a", 60, 15_000)}
    assert tables[JOB_USAGE_MINUTES].num_rows == 1
    blobs = [coverage.export_dirty()]
    assert coverage.forget_idle(first + 20) == 0
    assert coverage.forget_idle(first + 21) == 2
    assert coverage.places_of("n", ["a", "b"]) == []
    blobs.append(coverage.export_dirty())
    again = Coverage(late_horizon_s=600)
    for blob in blobs:
        again.apply(blob)
    for one in (coverage, again):
        rows = rows_by_key(one, every_row(one))
        assert {key: row[:2] for key, row in rows.items()} == {
            ("", 0, "3:1:na", first + 150): (60, 15_000),
            ("j", 1, "n", first + 20): (60, 60_000),
        }
        # A sample of a minute that was kept changes nothing, one beyond what was forgotten begins anew.
        one.fold([sample(9040, 60, job_id="", node="1:n", gpus=["a"], util_ratio=[0.25])])
        assert len(one.drain_dirty()) == 0
        one.fold([sample(1300, 60, job_id="", gpus=["a"], util_ratio=[0.5])])
        assert usage_tables(one, one.drain_dirty(), 0, 2)[UNATTRIBUTED_MINUTES].num_rows == 1


@given(histories(), st.sampled_from((0.0, 0.05, 0.2, 0.5, 1.0)), st.integers(0, 3), st.integers(0, 6))
def test_who_is_idle_by_a_part_of_its_rows_is_so_by_all(
    batches: list[list[GpuEvent]], ratio: float, skipped: int, minutes: int
) -> None:
    coverage = Coverage(HORIZON_S)
    for batch in batches:
        coverage.fold(batch)
    jobs = sorted({job_id for job_id, *_ in rows_by_key(coverage, every_row(coverage))})
    lo = T0_S // 60 + skipped - 1
    hi = lo + minutes
    usage = coverage.recent_usage(jobs, lo, hi, np.full(len(jobs), ratio))
    columns = zip(jobs, *(column.tolist() for column in usage), strict=True)
    for job, sampled, productive, since in columns:
        by_minute = [
            (minute, figures)
            for (job_id, *_, minute), figures in rows_by_key(coverage, every_row(coverage)).items()
            if job_id == job and lo <= minute < hi
        ]
        inside = [figures for _, figures in by_minute]
        if since < hi:
            gpus = sum(len(holder.gpus) for holder in coverage.holders() if holder.job_id == job)
            newest_ms = sum(figures[1] for minute, figures in by_minute if minute >= since)
            assert newest_ms >= ratio * gpus * (minutes * 60_000)
        all_sampled_ms, all_productive_ms = 1000 * sum(f[0] for f in inside), sum(f[1] for f in inside)
        assert (productive < ratio * sampled) == (all_productive_ms < ratio * all_sampled_ms)
        if all_productive_ms < ratio * all_sampled_ms:  # the alert shows its figures
            assert (sampled, productive) == (all_sampled_ms, all_productive_ms)
