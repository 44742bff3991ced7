"""`trainfare serve` with its log on a real disk that runs full, and is killed: nothing acknowledged is lost."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.serve.run import Chaos

_DISK_BYTES: Final = 64 * 2**20
_FILLER: Final = "filler"
_PIECE: Final = bytes(2**16)


class SmallDisk(Chaos):
    """Takes all room there is."""

    taken = 0

    def take_room(self, log: Path) -> None:
        with (log / _FILLER).open("wb", buffering=0) as file:
            size = len(_PIECE)
            while size:  # to the last byte
                try:
                    written = file.write(_PIECE[:size])
                except OSError as fault:
                    assert fault.errno == errno.ENOSPC  # noqa: PT017 - it is what ends the loop
                    size //= 2
                else:
                    self.taken += written

    def give_room(self, log: Path) -> None:
        (log / _FILLER).unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory whose `data/log` is a disk of its own, in memory."""
    log = tmp_path / "data" / "log"
    log.mkdir(parents=True, mode=0o700)
    (tmp_path / "data").chmod(0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=700", "tmpfs", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(log)], check=True)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_disk_that_runs_full_loses_nothing_acknowledged(small_disk: Path) -> None:
    chaos = SmallDisk(small_disk, 12, jobs=8, seconds=400, life_s=(1.0, 5.0), rest_s=0.6)
    report = chaos.go()
    assert report.differences == []
    assert (report.kills, report.torn) == (12, 6)
    assert report.full >= 2
    assert report.answers["503 log_full"] >= 2
    assert chaos.taken > _DISK_BYTES  # more than once
    assert 0 < report.acknowledged <= report.in_log
