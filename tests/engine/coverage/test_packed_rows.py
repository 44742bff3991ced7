"""Old rows are packed: what is asked of a coverage, and what it hands out, stays as if they never were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import add

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import GpuEvent
from schemas.tables import ATTEMPT_GPUS
from streams.engine.coverage import packed_rows
from streams.engine.coverage.blob_form import Blob, read
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.fold_result import UsagePiece
from streams.engine.coverage.usage_table import usage_tables
from streams.engine.kernels.store import BEGINNING_MINUTE, ROW
from tests.engine.coverage.naive import NaiveCoverage
from tests.engine.coverage.samples import T0_S, histories, sample
from tests.engine.coverage.test_coverage import HORIZON_S, check_equal, every_row, rows_by_key

#: Of the first whole minute: seconds after T0, and its number.
FIRST_S = 40
FIRST = (T0_S + FIRST_S) // 60


@contextmanager
def packed_at(*, every: int, young: int) -> Iterator[None]:
    """With every export what is older than so many minutes is packed, once so many more have gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_rows, "_EVERY", every)
        patch.setattr(packed_rows, "_YOUNG", young)
        patch.setattr(packed_rows, "_SEGMENT_ROWS", 2)
        yield


@st.composite
def long_histories(draw: st.DrawFn) -> list[list[GpuEvent]]:
    """Histories with pauses; what comes after one may be as old as what was before it, of GPUs new or seen."""
    batches, at_ms = [], 0
    for batch in draw(histories()):
        at_ms += draw(st.sampled_from([0, 0, 60_000, 600_000]))
        back_ms = draw(st.sampled_from([0, 0, 120_000, at_ms]))
        new = draw(st.sampled_from(["", "", "late"]))
        batches.append(
            [
                msgspec.structs.replace(
                    each, time_ms=each.time_ms + at_ms - back_ms, gpus=[f"{gpu}{new}" for gpu in each.gpus]
                )
                for each in batch
            ]
        )
    return batches


@settings(max_examples=25)
@given(long_histories(), st.integers(0, 3), st.integers(0, 6))
def test_packed_and_unpacked_rows_give_the_same_tables_before_and_after_a_restore(
    batches: list[list[GpuEvent]], young: int, crash: int
) -> None:
    plain, twin = Coverage(HORIZON_S), NaiveCoverage(HORIZON_S)
    with packed_at(every=0, young=young):
        packed, blobs = Coverage(HORIZON_S), []
        stored: dict[str, set[tuple[object, ...]]] = {"packed": set(), "plain": set()}
        for number, batch in enumerate(batches):
            for record in batch:
                twin.fold(record)
            want, got = plain.fold(batch), packed.fold(batch)
            assert (got.late, got.all_late.tolist()) == (want.late, want.all_late.tolist())
            assert by_key(packed, stored["packed"]) == by_key(plain, stored["plain"])
            assert stored["packed"] == stored["plain"]
            blobs.append(packed.export_dirty(packed.holders() if number == 2 else ()))
            if number == crash:
                packed = restored(blobs)
    assert usage_sums(packed) == usage_sums(plain) == row_sums(plain)
    check_equal(packed, twin)
    check_equal(plain, twin)


def usage_sums(coverage: Coverage) -> dict[tuple[str, int], list[int]]:
    """What each attempt used, added up from pieces that cut at an odd minute; behind a column of something else."""
    owners = sorted({(holder.job_id, holder.attempt) for holder in coverage.holders()})
    sums = np.zeros((len(owners), 5), np.int64)
    first, cut, last = (T0_S // 60 + minutes for minutes in (-200, 1, 200))
    pieces = [
        UsagePiece(*owner, lo, hi, row)
        for row, owner in enumerate(owners)
        for lo, hi in ((first, cut), (cut, last))
    ]
    coverage.add_usage(pieces, sums, 1)
    assert not sums[:, 0].any()
    return {owner: usage for owner, usage in zip(owners, sums[:, 1:].tolist(), strict=True) if any(usage)}


def row_sums(coverage: Coverage) -> dict[tuple[str, int], list[int]]:
    """The same, row by row."""
    found: dict[tuple[str, int], list[int]] = {}
    for holder in coverage.holders():
        mine = found.setdefault((holder.job_id, holder.attempt), [0, 0, 0, 0])
        for _, usage in coverage.minute_usage([holder.number], BEGINNING_MINUTE, 2**31 - 1):
            mine[:] = map(add, mine, usage)
    return {owner: usage for owner, usage in found.items() if any(usage)}


def by_key(coverage: Coverage, stored_gpus: set[tuple[object, ...]]) -> list[dict[str, object]]:
    """The usage rows that changed, in the order of their keys. GPUs of attempts, which are stored once more after a restore, are added to a set."""
    tables = usage_tables(coverage, coverage.drain_dirty(), 0, 1)
    gpus = tables.pop(ATTEMPT_GPUS, None)
    stored_gpus.update(tuple(row.values()) for row in (gpus.to_pylist() if gpus is not None else ()))
    rows = [row for table in tables.values() for row in table.to_pylist()]
    names = ("job_id", "attempt", "node", "gpu", "minute")
    return sorted(rows, key=lambda row: [str(row.get(name)) for name in names])


def restored(blobs: list[bytes]) -> Coverage:
    """A coverage from a chain."""
    coverage = Coverage(HORIZON_S)
    for blob in blobs:
        coverage.apply(blob)
    assert coverage.is_complete
    return coverage


@settings(max_examples=20)
@given(long_histories(), st.lists(st.sampled_from(["j1", "j2"]), max_size=8))
def test_a_job_with_old_rows_goes_to_the_archive_and_comes_back(
    batches: list[list[GpuEvent]], moves: list[str]
) -> None:
    twin, blobs = NaiveCoverage(HORIZON_S), []
    archive: dict[str, bytes] = {}
    with packed_at(every=0, young=0):
        coverage = Coverage(HORIZON_S)
        for number, batch in enumerate(batches):
            for job_id in {record.job_id for record in batch} & archive.keys():
                coverage.adopt(archive.pop(job_id))
            for record in batch:
                twin.fold(record)
            coverage.fold(batch)
            coverage.drain_dirty()
            blobs.append(coverage.export_dirty())
            if number < len(moves) and moves[number] not in archive:
                archive[moves[number]] = coverage.export([moves[number]])
                coverage.forget([moves[number]])
        for blob in archive.values():
            coverage.adopt(blob)
        blobs.append(coverage.export_dirty())
        again = restored(blobs)
        assert again.packed_bytes == sum(len(holder.packed) for holder in again.holders())
    check_equal(coverage, twin)
    check_equal(again, twin)


def hours_of(coverage: Coverage, hours: int = 8, jobs: tuple[str, ...] = ("j",), **changes: object) -> None:
    """A node of eight GPUs for each job, sampled for hours by a message a minute, exported each ten."""
    random = np.random.default_rng(1)
    gpus = [f"g{k}" for k in range(8)]
    values = {"gpus": gpus, "power_w": [700.0] * 8, "memory_used_mib": [70_000.0] * 8} | changes
    for minute in range(hours * 60):
        util = random.uniform(0.9, 1, 8).round(3).tolist()
        at_s = FIRST_S + 60 * minute + 60
        coverage.fold([sample(at_s, 60, util_ratio=util, job_id=job_id, **values) for job_id in jobs])
        if minute % 10 == 9:
            coverage.drain_dirty()
            coverage.export_dirty()


def test_a_node_takes_a_few_bytes_a_minute() -> None:
    coverage = Coverage()
    coverage.drop_counts("j", 1)
    hours_of(coverage)
    assert coverage.row_count < 75
    assert coverage.packed_bytes < 6 * 8 * 60
    assert len(coverage.rows_of(coverage.holders_of("j", 1))) == 8 * 60
    assert coverage.packed_bytes == 0


def test_a_metered_node_takes_little_more_and_its_seconds_are_known() -> None:
    coverage = Coverage()
    hours_of(coverage)
    assert coverage.row_count < 75
    assert coverage.packed_bytes < 10 * 8 * 60
    rows = coverage.minute_rows("j", 1, FIRST + 60)
    assert coverage.counts(rows).tolist() == [[8] * 60]
    assert coverage.row_count < 75 + 60
    assert coverage.packed_bytes > 0


def test_what_was_unpacked_is_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coverage = Coverage()
    hours_of(coverage)
    held = coverage.packed_bytes
    coverage.rows_of(coverage.holders_of("j", 1))
    assert coverage.row_count >= 8 * 60
    coverage.export_dirty()
    assert coverage.row_count >= 8 * 60  # few are left until the next time
    monkeypatch.setattr(packed_rows, "_MANY", 300)
    coverage.export_dirty()
    assert coverage.row_count < 75
    assert held * 0.8 < coverage.packed_bytes < held * 1.1


def test_samples_that_are_late_leave_old_rows_packed() -> None:
    coverage = Coverage()
    hours_of(coverage, hours=3)
    held, gpus = coverage.packed_bytes, [f"g{k}" for k in range(8)]
    folded = coverage.fold(
        [sample(FIRST_S + 60 * k + 60, 60, gpus=gpus, util_ratio=[1.0] * 8) for k in range(120)]
    )
    assert folded.all_late.all()
    assert coverage.packed_bytes == held
    coverage.fold([sample(FIRST_S + 3600, 60, gpus=["new", "g1"], util_ratio=[1.0] * 2)])
    assert 0 < coverage.packed_bytes < held
    changed = rows_by_key(coverage, coverage.drain_dirty())
    assert {key: row[0] for key, row in changed.items()} == {("j", 1, "n", FIRST + 59): 480 + 60}


def test_old_rows_of_an_attempt_that_its_timeline_pays_leave_and_metered_ones_stay() -> None:
    coverage = Coverage()
    coverage.drop_counts("j", 1)
    hours_of(coverage, jobs=("j", "metered"))
    assert 3 * 60 <= coverage.evict(FIRST + 4 * 60) <= 4 * 60
    minutes = coverage.usage(coverage.rows_of(coverage.holders_of("j", 1))).minute
    assert FIRST + 3 * 60 <= int(minutes.min()) <= FIRST + 4 * 60
    assert len(coverage.rows_of(coverage.holders_of("metered", 1))) == 8 * 60
    assert coverage.evict(2**31 - 1) == 0  # all are among the rows again


def test_planes_come_back_where_none_were_in_use() -> None:
    coverage = Coverage()
    hours_of(coverage, hours=2, sm_ratio=[0.5] * 8, tensor_ratio=[0.25] * 8)
    other = Coverage()
    other.apply(coverage.export_dirty(coverage.holders()))
    want, got = (rows_by_key(each, every_row(each)) for each in (coverage, other))
    assert got == want
    assert {row[3] for row in got.values()} == {480 * 500}


def test_a_snapshot_of_hours_is_small_and_what_is_old_is_not_opened() -> None:
    coverage = Coverage()
    hours_of(coverage)
    blob = coverage.export_dirty(coverage.holders())
    assert len(blob) < 8 * 1202 + 8 * 60 * 9 + 75 * (ROW.itemsize + 120)
    assert len(read(blob).rows) < 75 * ROW.itemsize
    other = Coverage()
    other.apply(blob)
    assert other.row_count < 75
    assert other.packed_bytes >= coverage.packed_bytes > 0
    assert rows_by_key(other, every_row(other)) == rows_by_key(coverage, every_row(coverage))


def test_old_rows_that_are_cut_off_are_found_out() -> None:
    coverage = Coverage()
    hours_of(coverage, hours=2)
    blob = read(coverage.export_dirty(coverage.holders()))
    whole = blob.holders[0]
    for packed, message in (
        (whole.packed[:-1], "cut off"),
        (whole.packed[:20], "cut off"),
        (broken(whole.packed), "read"),
    ):
        holder = msgspec.structs.replace(whole, packed=packed)
        other = Coverage()
        other.apply(msgspec.msgpack.encode(with_holder(blob, holder)))
        with pytest.raises(ValueError, match=message):
            every_row(other)


def with_holder(blob: Blob, holder: object) -> Blob:
    """The blob with another holder."""
    return msgspec.structs.replace(blob, holders=[holder])


def broken(packed: bytes) -> bytes:
    """Numbers that go on past the end of the first segment."""
    size = int.from_bytes(packed[:4], "little")
    return packed[: size - 40] + b"\xff" * 40 + packed[size:]
