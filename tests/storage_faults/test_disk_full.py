"""A disk that is full: a worker says so, reads no more and waits; a replay says so and ends; both go on once there is room."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.acceptance.events import AS_OF_MS, write_fleet
from tests.cli.command import trainfare
from tests.replay.replay_process import replay, stored_rows
from tests.storage_faults.rig import PATIENCE_S, rig

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MIB = 2**20
SIZE_MIB = 64
FULL = "has no space left on its disk"


class Disk:
    """A small file system of its own, with a ballast to fill it up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave_bytes: int) -> None:
        """Take all but this; called again, what others have given back since."""
        found = os.statvfs(self.path)
        more_bytes = found.f_bavail * found.f_bsize - leave_bytes
        if more_bytes > 0:
            with self._ballast.open("ab") as file:
                os.posix_fallocate(file.fileno(), file.tell(), more_bytes)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield Disk(path)
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_replay_says_that_the_disk_is_full_and_goes_on_once_it_is_not(disk: Disk, tmp_path: Path) -> None:
    log = write_fleet(tmp_path / "fleet.jsonl")
    want = replay([log], tmp_path / "elsewhere", partitions=8, as_of=AS_OF_MS)["tables"]
    data = disk.path / "data"
    for leave_bytes in (300_000, 3 * MIB):  # full at once, and full on the way
        disk.fill(leave_bytes)
        done = trainfare("replay", log, "--data", data, "--as-of", AS_OF_MS, new_store="begun")
        assert done.code == 1, done.out
        assert FULL in done.err.splitlines()[-1]
        assert done.err.splitlines()[-1].startswith("trainfare: ")
        assert "Traceback" not in done.err
    disk.free()
    assert trainfare("replay", log, "--data", data, "--as-of", AS_OF_MS, new_store="begun").code == 0
    assert stored_rows(data) == want


@pytest.mark.kafka
def test_a_worker_waits_for_room_within_its_bounds_and_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    data = disk.path / "data"
    env = {
        "TRAINFARE_CLICKHOUSE_DATA_DIR": str(data),
        "TRAINFARE_METER_MAX_BACKLOG_BYTES": str(MIB),
    }
    with rig(tmp_path, "http://127.0.0.1:9", jobs=40, seconds=600, **env) as made:
        worker = made.workers.start()
        worker.wait_ready(PATIENCE_S)
        made.publish(2_000)
        while made.behind():
            time.sleep(0.5)
        disk.fill(200_000)
        made.publish_heavy(8_000)
        # Merges give back what small parts took, and a flight might fit.
        made.wait_paused(meanwhile=lambda: disk.fill(200_000))
        for _ in range(150):
            disk.fill(200_000)
            time.sleep(0.1)
        assert FULL in worker.text()
        assert "reading pauses" in worker.text()
        found = made.metrics()
        assert MIB <= found["trainfare_backlog_bytes"] < 16 * MIB
        assert made.behind() > 0
        assert worker.alive
        assert worker.count(FULL) < 20, "the log is flooded"
        disk.free()
        worker.wait_until("store is available again")
        made.wait_reading()
        assert "reading goes on" in worker.text()
        made.publish()
        while made.behind():
            time.sleep(0.5)
        time.sleep(25)  # what goes on is paid every ten seconds
        assert worker.terminate() == 0
        assert "Traceback" not in worker.text()
        made.assert_exact(Embedded(data_dir=data))


def test_that_the_disk_was_full_is_no_accident(disk: Disk) -> None:
    """The file system has so much room, and no more."""
    disk.fill(0)
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "more").write_bytes(b"x" * MIB)
    disk.free()
    store = ClickHouseStore(Embedded(data_dir=disk.path / "data"))
    store.close()
