"""A position survives a crash, and is never that of somebody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.collect.position_file import PositionFile
from streams.errors import TrainfareError


def test_what_was_stored_last_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.position"
    with PositionFile(path, "a") as file:
        assert file.load() is None
        file.store({"at_ms": 1})
        file.store({"at_ms": 2, "names": ["x"]})
    with PositionFile(path, "a") as file:
        assert file.load() == {"at_ms": 2, "names": ["x"]}


def test_one_process_at_a_time_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "a.position"
    with (
        PositionFile(path, "a"),
        pytest.raises(TrainfareError, match="in use by another collector"),
        PositionFile(path, "a"),
    ):
        pass
    with PositionFile(path, "a") as file:
        assert file.load() is None


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"form": 1}', b"\xff", b'{"form":1,"collector":"a","position":3}']
)
def test_a_file_that_is_no_position_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.position"
    path.write_bytes(text)
    with (
        PositionFile(path, "a") as file,
        pytest.raises(TrainfareError, match="is no position of a collector"),
    ):
        file.load()


def test_the_position_of_another_collector_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.position"
    with PositionFile(path, "a") as file:
        file.store({"at_ms": 1})
    with PositionFile(path, "b") as file, pytest.raises(TrainfareError, match="of the collector a"):
        file.load()


def test_a_write_that_fails_leaves_the_former_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.position"
    with PositionFile(path, "a") as file:
        file.store({"at_ms": 1})

        def full(_fd: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(TrainfareError, match="cannot be written: No space left"):
            file.store({"at_ms": 2})
        monkeypatch.undo()
        assert file.load() == {"at_ms": 1}


def test_a_report_stays_beside_the_position(tmp_path: Path) -> None:
    path = tmp_path / "position"
    with PositionFile(path, "a") as file:
        file.store_report({"early": 1})  # nothing was read before there is a position
        assert file.load() is None
        file.store({"at": 1})
        file.store_report({"polls": 2})
        file.store({"at": 3})
    with PositionFile(path, "a") as file:
        assert file.load() == {"at": 3}
        assert file.report == {"polls": 2}
