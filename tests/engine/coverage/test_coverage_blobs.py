"""Crash and restore, archive and back, forgetting: coverage goes on as if nothing had happened."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import GpuEvent
from streams.engine.coverage import coverage as module
from streams.engine.coverage.coverage import Coverage
from tests.engine.coverage.naive import NaiveCoverage
from tests.engine.coverage.samples import histories, sample
from tests.engine.coverage.test_coverage import HORIZON_S, check_equal, every_row, rows_by_key


@given(histories(), st.sets(st.integers(0, 6)), st.integers(0, 6), st.booleans())
def test_a_base_and_increments_restore_everything(
    batches: list[list[GpuEvent]], exports: set[int], crash: int, compact: bool
) -> None:
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    blobs = [coverage.export_dirty(coverage.holders())]
    for number, batch in enumerate(batches):
        for record in batch:
            twin.fold(record)
        coverage.fold(batch)
        if number in exports:
            blobs.append(coverage.export_dirty())
        if compact:
            coverage._names.compact()
        if number == crash:
            blobs.append(coverage.export_dirty())
            coverage = Coverage(HORIZON_S)
            for blob in blobs:
                coverage.apply(blob)
            assert len(coverage.drain_dirty()) == 0
            check_equal(coverage, twin)
            blobs = [coverage.export_dirty(coverage.holders())]
    check_equal(coverage, twin)


@given(histories(), st.lists(st.sampled_from(["j1", "j2"]), max_size=8))
def test_a_job_in_the_archive_comes_back_as_it_was(batches: list[list[GpuEvent]], moves: list[str]) -> None:
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    archive: dict[str, bytes] = {}
    blobs = []
    for number, batch in enumerate(batches):
        for job_id in {record.job_id for record in batch} & archive.keys():
            coverage.adopt(archive.pop(job_id))
        for record in batch:
            twin.fold(record)
        coverage.fold(batch)
        if number < len(moves) and moves[number] not in archive:
            archive[moves[number]] = coverage.export([moves[number]])
            coverage.forget([moves[number]])
        blobs.append(coverage.export_dirty())
    for blob in archive.values():
        coverage.adopt(blob)
    check_equal(coverage, twin)
    restored = Coverage(HORIZON_S)
    for blob in [*blobs, coverage.export_dirty()]:
        restored.apply(blob)
    check_equal(restored, twin)


def test_an_increment_brings_only_what_changed() -> None:
    coverage = Coverage()
    coverage.fold([sample(600, 600, job_id=f"job-{k}") for k in range(50)])
    coverage.export_dirty(coverage.holders())
    assert len(coverage.export_dirty()) < 100
    coverage.fold([sample(601, 1, job_id="job-7")])
    assert len(coverage.export_dirty()) < 500


@pytest.mark.parametrize("gap_s", [1, HORIZON_S, HORIZON_S + 1, 500])
def test_a_gap_between_increments_is_not_covered(gap_s: int) -> None:
    coverage, restored, twin = Coverage(HORIZON_S), Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    last = 100 + gap_s + 1
    batch = [sample(100, 100, sm_ratio=[1.0]), sample(last, 1), sample(last, HORIZON_S, sm_ratio=[0.5])]
    for record in batch[:2]:
        coverage.fold([record])
        restored.apply(coverage.export_dirty())
    restored.fold(batch[2:])
    for record in batch:
        twin.fold(record)
    check_equal(restored, twin)


def test_forgotten_jobs_free_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPARE", 8)
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    base = coverage.export_dirty(coverage.holders())
    increments = []
    for k in range(60):
        record = sample(k, 5, job_id="j" if k % 10 == 0 else f"short-{k}", sm_ratio=[0.5])
        coverage.fold([record])
        if k % 10 == 0:
            twin.fold(record)
        if k % 3 == 2:
            increments.append(coverage.export_dirty())
        coverage.forget([f"short-{k - 2}"])
    coverage.forget([f"short-{k}" for k in range(60)])
    assert coverage._arrays.rows < 20
    assert coverage._arrays.slots < 20
    check_equal(coverage, twin)
    restored = Coverage(HORIZON_S)
    for blob in [base, *increments, coverage.export_dirty()]:
        restored.apply(blob)
    check_equal(restored, twin)
    assert "short-1" not in restored.jobs()


def test_dirty_rows_of_a_forgotten_job_are_not_taken() -> None:
    coverage = Coverage()
    coverage.fold([sample(0, 1), sample(0, 1, job_id="j2")])
    coverage.forget(["j"])
    assert [coverage.holder(k)[0] for k in coverage.usage(coverage.drain_dirty()).holder.tolist()] == ["j2"]


@settings(max_examples=30)
@given(histories(), st.sampled_from([5, 19, 21, 40]))
def test_another_horizon_never_counts_a_second_twice(batches: list[list[GpuEvent]], horizon_s: int) -> None:
    coverage, twin, boundless = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S), NaiveCoverage(10**6)
    every = [record for batch in batches for record in batch]
    coverage.fold(every)
    for record in every:
        twin.fold(record)
        boundless.fold(record)
    other = Coverage(horizon_s)
    other.apply(coverage.export_dirty(coverage.holders()))
    check_equal(other, twin)
    # All of it again, newest first: what was late before may gain now, but no second gains twice.
    other.fold(sorted(every, key=lambda record: -record.time_ms))
    limit = boundless.rows()
    for key, row in rows_by_key(other, every_row(other)).items():
        assert row[0] <= limit[key][0]
        assert row[1] <= limit[key][1]


def test_adopting_a_job_that_is_in_memory_is_refused() -> None:
    coverage = Coverage()
    coverage.fold([sample(0, 1)])
    with pytest.raises(ValueError, match="in memory already"):
        coverage.adopt(coverage.export(["j"]))


def test_a_missing_increment_is_found_out() -> None:
    coverage, restored = Coverage(), Coverage()
    coverage.fold([sample(0, 1)])
    base = coverage.export_dirty()
    coverage.fold([sample(1, 1)])
    late = coverage.export_dirty()
    restored.apply(late)
    assert not restored.is_complete
    assert restored.jobs() == []
    restored.apply(base)
    assert restored.is_complete
    coverage.fold([sample(2, 1, gpus=["new"])])
    coverage.export_dirty()
    coverage.fold([sample(3, 1, gpus=["newer"])])
    with pytest.raises(ValueError, match="missing"):
        restored.apply(coverage.export_dirty())


@given(histories(), st.lists(st.integers(0, 8), min_size=1, max_size=8), st.data())
def test_a_chain_that_begins_where_a_round_of_whole_holders_began_has_everything(
    batches: list[list[GpuEvent]], turns: list[int], data: st.DataObject
) -> None:
    coverage, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    begin = data.draw(st.integers(0, max(len(batches) - 1, 0)), label="begin")
    blobs, waiting = [], []
    for number, batch in enumerate(batches):
        for record in batch:
            twin.fold(record)
        coverage.fold(batch)
        if number == begin:
            waiting = coverage.holders()
        if number > begin:
            several = turns[number % len(turns)]
            blobs.append(coverage.export_dirty(waiting[:several]))
            waiting = waiting[several:]
        else:
            blobs.append(coverage.export_dirty())
    blobs.append(coverage.export_dirty(waiting))
    restored = Coverage(HORIZON_S)
    for blob in blobs[begin if batches else 0 :]:
        restored.apply(blob)
    assert restored.is_complete
    check_equal(restored, twin)


def test_an_unknown_format_is_refused() -> None:
    values = msgspec.msgpack.decode(Coverage().export_dirty())
    with pytest.raises(ValueError, match="format 4"):
        Coverage().apply(msgspec.msgpack.encode([4, *values[1:]]))


def test_dropped_counts_stay_dropped_after_a_restore() -> None:
    coverage, restored = Coverage(), Coverage()
    coverage.fold([sample(60, 1)])
    restored.apply(coverage.export_dirty(coverage.holders()))
    coverage.drop_counts("j", 1)
    coverage.fold([sample(61, 1)])
    restored.apply(coverage.export_dirty())
    with pytest.raises(ValueError, match="dropped"):
        restored.counts(restored.rows_of(restored.holders_of("j", 1)))
