"""A log on disk: offsets, segments, restarts, and what is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from streams.segmented_log.errors import BadBatchError, LogCorruptError, OffsetOutOfRangeError
from streams.segmented_log.log import LogOptions
from tests.segmented_log.logs import AT_MS, GPU, JOBS, all_held, batch_of, held, opened
from tests.transport.batches import TRANSACTIONAL, Written, batch

SMALL = LogOptions(segment_bytes=600)


def test_offsets_of_each_partition_count_from_zero(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        first = log.append(
            [(JOBS, batch_of(b"a", b"b")), (GPU, batch_of(b"x")), (JOBS, batch_of(b"c"))], AT_MS
        )
        assert first == [0, 0, 2]
        assert log.append([(GPU, batch_of(b"y"))], AT_MS) == [1]
        assert held(log, JOBS) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert held(log, GPU) == [(0, b"x"), (1, b"y")]


def test_all_records_of_a_batch_have_its_append_time(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.append([(JOBS, batch_of(b"a", b"b"))], AT_MS + 7)
        (data,) = log.read(JOBS, 0, 1)
        assert {each.timestamp for each in DefaultRecordBatch(data)} == {AT_MS + 7}
        assert {each.timestamp_type for each in DefaultRecordBatch(data)} == {1}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_restarts_and_segments_change_nothing(tmp_path: Path, codec: str) -> None:
    wanted: dict[tuple[str, int], list[tuple[int, bytes | None]]] = {}
    for number in range(40):
        place = (JOBS, GPU, ("jobs", 1))[number % 3]
        values = [f"{number}-{each}".encode() for each in range(1 + number % 4)]
        with opened(tmp_path, SMALL) as log:
            sent = bytes(batch(0, [Written(at, 1, value) for at, value in enumerate(values)], codec=codec))
            (base,) = log.append([(place, sent)], AT_MS + number)
            wanted.setdefault(place, []).extend(enumerate(values, base))
            assert all_held(log) == wanted
            assert log.newest_ms == AT_MS + number
    assert len(list(tmp_path.glob("*.log"))) > 5


def test_a_read_holds_at_most_what_was_asked_for_and_at_least_one_batch(tmp_path: Path) -> None:
    with opened(tmp_path, SMALL) as log:
        for _ in range(10):
            log.append([(JOBS, batch_of(b"v" * 100))], AT_MS)
        size = len(batch_of(b"v" * 100))
        assert len(log.read(JOBS, 0, 1)) == 1
        assert len(log.read(JOBS, 0, 3 * size)) == 3
        assert len(log.read(JOBS, 5, 100 * size)) == 5
        assert log.read(JOBS, 10, 100) == []


def test_offsets_that_the_log_does_not_hold_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.append([(JOBS, batch_of(b"a"))], AT_MS)
        for offset in (-1, 2):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(JOBS, offset, 1)


def test_what_is_no_batch_is_refused_and_nothing_of_its_group_is_written(tmp_path: Path) -> None:
    good = batch_of(b"a")
    old, short, flipped = bytearray(good), good[:-1], bytearray(good)
    old[16] = 1
    flipped[-1] ^= 1
    transaction = bytes(batch(0, [Written(0, 1, b"a")], attributes=TRANSACTIONAL))
    hole = bytes(batch(0, [Written(0, 1, b"a")], last_delta=5))
    with opened(tmp_path) as log:
        for bad in (b"", bytes(old), short, bytes(flipped), transaction, hole):
            with pytest.raises(BadBatchError):
                log.append([(JOBS, good), (JOBS, bad)], AT_MS)
        assert log.end(JOBS) == 0


# -- retention -----------------------------------------------------------------------------------------------


def test_only_whole_segments_that_nobody_needs_are_dropped_and_offsets_go_on(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes=600, retention_bytes=1_500)
    with opened(tmp_path, options) as log:
        for _ in range(30):
            log.append([(JOBS, batch_of(b"v" * 100)), (GPU, batch_of(b"w"))], AT_MS)
        assert log.drop(AT_MS, lambda _place: 0) == 0  # nothing is stored yet
        needed = {JOBS: 30, GPU: 7}
        assert log.drop(AT_MS, lambda place: needed[place]) > 0
        assert 0 < log.start(GPU) <= 7
        assert [offset for offset, _ in held(log, GPU)] == list(range(log.start(GPU), 30))
        needed[GPU] = 30
        assert log.drop(AT_MS, lambda place: needed[place]) > 0
        assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) <= 1_500 + 600
        with pytest.raises(OffsetOutOfRangeError):
            log.read(JOBS, 0, 1)
    with opened(tmp_path, options) as log:
        assert log.append([(JOBS, batch_of(b"z"))], AT_MS) == [30]


def test_a_partition_whose_records_are_all_dropped_goes_on_at_its_offset(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes=1, retention_ms=1_000)
    with opened(tmp_path, options) as log:
        log.append([(GPU, batch_of(b"x", b"y"))], AT_MS)
        for second in range(1, 5):
            log.append([(JOBS, batch_of(b"a"))], AT_MS + second * 1_000)
        assert log.drop(AT_MS + 6_000, lambda _place: 99) == 4
    with opened(tmp_path, options) as log:
        assert (log.start(GPU), log.end(GPU), log.end(JOBS)) == (2, 2, 4)
        assert log.append([(GPU, batch_of(b"z"))], AT_MS + 5_000) == [2]
        assert held(log, GPU) == [(2, b"z")]


def test_a_quiet_log_begins_a_segment_by_age(tmp_path: Path) -> None:
    with opened(tmp_path, LogOptions(segment_ms=1_000, retention_ms=1_000)) as log:
        for second in range(4):
            log.append([(JOBS, batch_of(b"a"))], AT_MS + second * 1_000)
        assert log.drop(AT_MS + 3_000, lambda _place: 99) == 1
        assert log.start(JOBS) == 1


# -- damage --------------------------------------------------------------------------------------------------


def test_a_missing_segment_is_an_error(tmp_path: Path) -> None:
    with opened(tmp_path, SMALL) as log:
        for _ in range(20):
            log.append([(JOBS, batch_of(b"v" * 100))], AT_MS)
    sorted(tmp_path.glob("*.log"))[2].unlink()
    with pytest.raises(LogCorruptError, match="lacks what is between"), opened(tmp_path, SMALL):
        pass


def test_damage_in_an_older_segment_is_an_error_of_the_read_that_meets_it(tmp_path: Path) -> None:
    with opened(tmp_path, SMALL) as log:
        for _ in range(20):
            log.append([(JOBS, batch_of(b"v" * 100))], AT_MS)
    second = sorted(tmp_path.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[-10] ^= 1
    second.write_bytes(data)
    with opened(tmp_path, SMALL) as log:
        assert log.end(JOBS) == 20
        assert log.read(JOBS, 19, 1)
        with pytest.raises(LogCorruptError, match=rf"{second.name} is damaged at byte \d+"):
            held(log, JOBS)
