"""A log that ends at any byte, on any disk: nothing acknowledged is lost, and what was not is whole or gone."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogCorruptError, LogError, LogFullError
from streams.segmented_log.frames import Place, packed
from streams.segmented_log.log import LogOptions, SegmentedLog
from tests.segmented_log.logs import AT_MS, GPU, JOBS, FullDisk, Unsynced, all_held, batch_of, held, opened

SMALL = LogOptions(segment_bytes=900)
Held = dict[Place, list[tuple[int, bytes | None]]]


def written(path: Path, options: LogOptions | None = None, groups: int = 5) -> list[tuple[Path, int, Held]]:
    """A log of some groups of two batches: after each group the last file, its size, and what the log holds."""
    found = []
    with opened(path, options, Unsynced()) as log:
        for number in range(groups):
            log.append(
                [(JOBS, batch_of(b"a%d" % number, b"b" * 40)), (GPU, batch_of(b"x%d" % number))], AT_MS
            )
            last = max(path.glob("*.log"))
            found.append((last, last.stat().st_size, all_held(log)))
    return found


def copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


def test_cut_at_every_byte_it_holds_every_group_before_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    after = written(source)
    last, whole = after[-1][0].name, after[-1][1]
    for size in range(whole):
        copy = copied(source, tmp_path / "copy")
        os.truncate(copy / last, size)
        acknowledged = [state for _, end, state in after if end <= size]
        with opened(copy, disk=Unsynced()) as log:
            found = all_held(log)
            # Of a group that was cut, the first batch may be there: it was not acknowledged and counts once when sent again.
            for place, records in (acknowledged[-1] if acknowledged else {}).items():
                assert found[place][: len(records)] == records
            assert sum(map(len, found.values())) <= 3 * (len(acknowledged) + 1) - 1
            base = log.end(JOBS)
            assert log.append([(JOBS, batch_of(b"more"))], AT_MS) == [base]
        with opened(copy, disk=Unsynced()) as log:
            assert held(log, JOBS)[-1] == (base, b"more")


def test_a_crash_while_a_segment_is_begun_loses_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    after = written(source, SMALL)
    (_, _, wanted), (last, _, _) = next(pair for pair in pairwise(after) if pair[0][0] != pair[1][0])
    for later in source.glob("*.log"):
        if later > last:
            later.unlink()
    for size in range(FIRST_BYTES):
        copy = copied(source, tmp_path / "copy")
        os.truncate(copy / last.name, size)
        with opened(copy, SMALL, Unsynced()) as log:
            assert all_held(log) == wanted
            log.append([(JOBS, batch_of(b"more"))], AT_MS)


#: Less than the header and head of a segment.
FIRST_BYTES = 90


def test_a_changed_byte_before_a_later_group_is_an_error_that_says_where(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    last, end, _ = written(source)[-2]
    for at in range(0, end, 7):
        copy = copied(source, tmp_path / "copy")
        data = bytearray((copy / last.name).read_bytes())
        data[at] ^= 0x40
        (copy / last.name).write_bytes(data)
        if at < len(b"trainfare1\n\x00") + 4:
            continue
        with pytest.raises(LogCorruptError, match="is damaged at byte"), opened(copy, disk=Unsynced()):
            pass
        assert (copy / last.name).read_bytes() == data, "nothing may be cut"


def test_a_hole_in_the_last_group_is_cut_though_its_end_reached_the_disk(tmp_path: Path) -> None:
    """After a loss of power later pages of one write may be there, and earlier ones not."""
    *_, (_, begin, wanted), (last, _, _) = written(tmp_path)
    data = bytearray(last.read_bytes())
    data[begin : begin + 30] = bytes(30)
    last.write_bytes(data)
    with opened(tmp_path) as log:
        assert all_held(log) == wanted


def test_an_event_that_looks_like_a_frame_is_not_taken_for_one(tmp_path: Path) -> None:
    """It would make of a torn write, which is cut, damage that keeps the meter from starting."""
    with opened(tmp_path) as log:
        log.append([(JOBS, batch_of(b"a"))], AT_MS)
        begin = max(tmp_path.glob("*.log")).stat().st_size
        forged = packed(b"mark", JOBS, batch_of(b"forged"), 2**40)
        log.append([(JOBS, batch_of(forged + b"b" * 100))], AT_MS)
    (last,) = tmp_path.glob("*.log")
    os.truncate(last, last.stat().st_size - 50)
    assert forged in last.read_bytes()[begin:]
    with opened(tmp_path) as log:
        assert held(log, JOBS) == [(0, b"a")]


# -- full and failing disks ----------------------------------------------------------------------------------


def test_a_disk_that_is_full_after_any_byte_takes_nothing_of_a_group_and_goes_on_with_room(
    tmp_path: Path,
) -> None:
    group = [(JOBS, batch_of(b"big" * 10)), (GPU, batch_of(b"y"))]
    for room in range(0, 400, 3):
        path = tmp_path / str(room)
        path.mkdir()
        disk = FullDisk()
        with opened(path, LogOptions(segment_bytes=300), disk) as log:
            log.append([(JOBS, batch_of(b"a"))], AT_MS)
            before = all_held(log)
            disk.room = room
            with suppress(LogFullError):
                while True:
                    log.append(group, AT_MS)
                    before = all_held(log)
            assert all_held(log) == before
            with pytest.raises(LogFullError, match="no room"):
                log.append(group, AT_MS)
            disk.room = None
            log.append(group, AT_MS)
            wanted = all_held(log)
            assert wanted != before
        with opened(path) as log:
            assert all_held(log) == wanted


class FailingDisk(Disk):
    """Fails to sync from a call on, or to cut."""

    def __init__(self, fault: int) -> None:
        self.fault = fault
        self.fails_sync = self.fails_truncate = False

    def sync(self, descriptor: int) -> None:
        if self.fails_sync:
            raise OSError(self.fault, os.strerror(self.fault))
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        if self.fails_truncate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(descriptor, size)


def test_after_a_failed_sync_nothing_is_taken_until_a_restart(tmp_path: Path) -> None:
    disk = FailingDisk(errno.EIO)
    with opened(tmp_path, disk=disk) as log:
        log.append([(JOBS, batch_of(b"a"))], AT_MS)
        disk.fails_sync = True
        with pytest.raises(LogError, match="Input/output error"):
            log.append([(JOBS, batch_of(b"b"))], AT_MS)
        disk.fails_sync = False
        with pytest.raises(LogError, match="until a restart"):
            log.append([(JOBS, batch_of(b"c"))], AT_MS)
        assert held(log, JOBS) == [(0, b"a")]  # it can be read
    with opened(tmp_path) as log:
        assert held(log, JOBS) == [(0, b"a")]
        assert log.append([(JOBS, batch_of(b"d"))], AT_MS) == [1]


def test_a_group_that_cannot_be_taken_back_ends_appending(tmp_path: Path) -> None:
    disk = FailingDisk(errno.ENOSPC)
    with opened(tmp_path, disk=disk) as log:
        log.append([(JOBS, batch_of(b"a"))], AT_MS)
        disk.fails_sync = disk.fails_truncate = True
        with pytest.raises(LogFullError):
            log.append([(JOBS, batch_of(b"b"))], AT_MS)
        disk.fails_sync = disk.fails_truncate = False
        with pytest.raises(LogError, match="until a restart"):
            log.append([(JOBS, batch_of(b"c"))], AT_MS)


def test_a_new_log_on_a_full_disk_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(LogFullError, match="make room"):
        SegmentedLog(tmp_path, LogOptions(), AT_MS, FullDisk(10))
    assert not list(tmp_path.iterdir())
