"""The log of a data directory: who may write, what is kept, append times, and groups of many requests."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams.clock import Clock, ManualClock
from streams.segmented_log.append_clock import AppendClock
from streams.segmented_log.directory import LogDirectory
from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import BadBatchError, LogError, LogFullError, LogInUseError
from streams.segmented_log.frames import Place
from streams.segmented_log.group_commit import WAITING_MAX_BYTES
from streams.segmented_log.log import LogOptions
from tests.segmented_log.logs import AT_MS, JOBS, FullDisk, Unsynced, batch_of, held

PRICES: Place = ("prices", 0)


@contextmanager
def directory(
    path: Path, options: LogOptions | None = None, *, clock: Clock | None = None, disk: Disk | None = None
) -> Iterator[LogDirectory]:
    clock = ManualClock(AT_MS) if clock is None else clock
    log = LogDirectory(path, 2, {"prices"}, options or LogOptions(), clock, disk=disk or Unsynced())
    try:
        yield log
    finally:
        log.close()


def append(log: LogDirectory, *batches: tuple[Place, bytes]) -> list[list[int]]:
    return [future.result(10) for future in log.append(batches)]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with (
        directory(tmp_path),
        pytest.raises(LogInUseError, match="in use by another process"),
        directory(tmp_path),
    ):
        pass
    with directory(tmp_path):
        pass


def test_files_are_for_this_user_alone(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        with directory(tmp_path / "data") as log:
            append(log, (JOBS, batch_of(b"a")), (PRICES, batch_of(b"p")))
    finally:
        os.umask(umask)
    for path in (tmp_path / "data").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_identity_stays_and_other_partitions_are_refused(tmp_path: Path) -> None:
    with directory(tmp_path) as log:
        identity = log.id
    with directory(tmp_path) as log:
        assert log.id == identity
    with pytest.raises(LogError, match="has 2 partitions, but 3 are set"):
        LogDirectory(tmp_path, 3, (), LogOptions(), ManualClock(AT_MS))
    (tmp_path / "log" / "identity.json").write_text("{}")
    with pytest.raises(LogError, match=r"identity\.json cannot be read"), directory(tmp_path):
        pass


def test_prices_and_controls_are_never_dropped(tmp_path: Path) -> None:
    with directory(tmp_path, LogOptions(segment_bytes=1, retention_bytes=1)) as log:
        for _ in range(5):
            append(log, (JOBS, batch_of(b"a")), (PRICES, batch_of(b"p")))
        assert log.drop(lambda _place: 99) == 4
        assert len(held(log.log_of("jobs"), JOBS)) == 1
        assert len(held(log.log_of("prices"), PRICES)) == 5


def test_requests_that_wait_are_one_group_and_each_gets_its_offsets(tmp_path: Path) -> None:
    disk = _HeldDisk()
    with directory(tmp_path, disk=disk) as log:
        append(log, (JOBS, batch_of(b"first")))
        disk.hold()
        (held_up,) = log.append([(JOBS, batch_of(b"a"))])
        assert disk.begun.wait(10)
        waiting: list[Future[list[int]]] = []
        for _ in range(50):
            waiting += log.append([(JOBS, batch_of(b"b", b"c")), (JOBS, batch_of(b"d"))])
        assert not held_up.done()
        assert log.events.end(JOBS) == 1, "what is not durable is not read"
        disk.may_sync.set()
        assert held_up.result(10) == [1]
        assert [future.result(10) for future in waiting] == [[2 + 3 * n, 4 + 3 * n] for n in range(50)]
        assert disk.syncs == 2


def test_a_bad_batch_fails_its_own_request_alone(tmp_path: Path) -> None:
    disk = _HeldDisk()
    with directory(tmp_path, disk=disk) as log:
        disk.hold()
        log.append([(JOBS, batch_of(b"a"))])
        assert disk.begun.wait(10)
        (good,), (bad,), (other,) = (
            log.append([(JOBS, each)]) for each in (batch_of(b"b"), b"bad", batch_of(b"c"))
        )
        disk.may_sync.set()
        assert (good.result(10), other.result(10)) == ([1], [2])
        with pytest.raises(BadBatchError):
            bad.result(10)


def test_one_who_leaves_while_it_waits_harms_nobody(tmp_path: Path) -> None:
    disk = _HeldDisk()
    with directory(tmp_path, disk=disk) as log:
        disk.hold()
        (first,) = log.append([(JOBS, batch_of(b"a"))])
        assert not first.cancel()
        (other,) = log.append([(JOBS, batch_of(b"b"))])
        disk.may_sync.set()
        assert (first.result(10), other.result(10)) == ([0], [1])


def test_what_waits_for_a_slow_disk_is_bounded(tmp_path: Path) -> None:
    disk = _HeldDisk()
    with directory(tmp_path, disk=disk) as log:
        disk.hold()
        log.append([(JOBS, batch_of(b"a"))])
        assert disk.begun.wait(10)
        big = batch_of(b"v" * 2**20)
        futures = [log.append([(JOBS, big)])[0] for _ in range(WAITING_MAX_BYTES // 2**20)]
        with pytest.raises(LogFullError, match="too many events wait"):
            futures[-1].result(0)
        disk.may_sync.set()
        assert futures[0].result(10) == [1]


def test_a_full_disk_fails_requests_until_there_is_room(tmp_path: Path) -> None:
    disk = FullDisk()
    with directory(tmp_path, disk=disk) as log:
        disk.room = 10
        with pytest.raises(LogFullError):
            append(log, (JOBS, batch_of(b"a")))
        disk.room = None
        assert append(log, (JOBS, batch_of(b"a"))) == [[0]]


def test_append_times_go_on_from_the_log_where_the_clock_is_behind_it(tmp_path: Path) -> None:
    with directory(tmp_path) as log:
        append(log, (JOBS, batch_of(b"a")))
    with directory(tmp_path, clock=ManualClock(AT_MS - 3_600_000)) as log:
        append(log, (JOBS, batch_of(b"b")))
        assert log.events.newest_ms == AT_MS


class _HeldDisk(Unsynced):
    """Waits in `sync` while it may not."""

    def __init__(self) -> None:
        self.may_sync, self.begun, self.syncs = threading.Event(), threading.Event(), 0
        self.may_sync.set()

    def hold(self) -> None:
        self.may_sync.clear()
        self.begun.clear()
        self.syncs = 0

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        self.begun.set()
        assert self.may_sync.wait(10)


# -- the clock -----------------------------------------------------------------------------------------------


def test_the_clock_follows_the_wall_clock_and_never_goes_back() -> None:
    clock = AppendClock(0, AT_MS, 0)
    assert clock.now_ms(AT_MS + 500, 500) == AT_MS + 500
    assert clock.now_ms(AT_MS - 3_600_000, 700) == AT_MS + 700  # set back: time goes on
    assert clock.now_ms(AT_MS + 900, 600) == AT_MS + 700


def test_a_wall_clock_that_is_ahead_for_a_moment_is_not_followed() -> None:
    clock = AppendClock(0, AT_MS, 0)
    assert clock.now_ms(AT_MS + 7_200_000, 1_000) == AT_MS + 1_000
    assert clock.now_ms(AT_MS + 7_209_000, 10_000) == AT_MS + 10_000
    assert clock.now_ms(AT_MS + 11_000, 11_000) == AT_MS + 11_000  # it was set right
    assert clock.now_ms(AT_MS + 7_212_000, 12_000) == AT_MS + 12_000


def test_a_machine_that_slept_is_followed_after_ten_seconds() -> None:
    clock = AppendClock(0, AT_MS, 0)
    slept_ms = 3_600_000
    clock.now_ms(AT_MS + slept_ms, 0)
    assert clock.now_ms(AT_MS + slept_ms + 9_999, 9_999) == AT_MS + 9_999
    assert clock.now_ms(AT_MS + slept_ms + 10_000, 10_000) == AT_MS + slept_ms + 10_000
