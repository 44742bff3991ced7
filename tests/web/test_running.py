"""Meters note themselves where commands of the same user look, and nobody else can plant one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from streams.config.live import WebSettings
from streams.web import running
from streams.web.local_access import LocalAccess
from streams.web.running import RunningMeter

URL = "http://127.0.0.1:8787"
#: No process has so large a number.
NO_PID = 2**31 - 1


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "folder", lambda: tmp_path / "noted")


def test_a_meter_is_noted_while_it_serves(tmp_path: Path) -> None:
    data = tmp_path / "meter"
    data.mkdir()
    access = LocalAccess(WebSettings(), data)
    access.open(URL)
    assert running.running() == [RunningMeter(URL, os.getpid(), str(data.resolve()))]
    assert stat.S_IMODE((tmp_path / "noted").stat().st_mode) == 0o700
    access.close()
    assert running.running() == []


def test_a_worker_beside_a_server_is_noted_without_a_directory() -> None:
    access = LocalAccess(WebSettings(), None)
    access.open(URL)
    assert running.running() == [RunningMeter(URL, os.getpid(), None)]


def test_what_was_killed_is_forgotten(tmp_path: Path) -> None:
    running.note(RunningMeter(URL, NO_PID, str(tmp_path)))
    assert running.running() == []
    assert list((tmp_path / "noted").iterdir()) == []


def test_a_folder_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    running.note(RunningMeter(URL, os.getpid(), str(tmp_path)))
    assert len(running.running()) == 1
    (tmp_path / "noted").chmod(0o777)
    assert running.running() == []


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    running.note(RunningMeter(URL, os.getpid(), str(tmp_path)))
    (tmp_path / "noted").rename(tmp_path / "elsewhere")
    (tmp_path / "noted").symlink_to(tmp_path / "elsewhere")
    assert running.running() == []


def test_where_nothing_can_be_written_the_meter_serves_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "noted").write_text("a file where the folder would be")
    running.note(RunningMeter(URL, os.getpid(), str(tmp_path)))
    assert running.running() == []


def test_an_entry_that_is_none_is_passed_over(tmp_path: Path) -> None:
    running.note(RunningMeter(URL, os.getpid(), str(tmp_path)))
    (tmp_path / "noted" / "1-1.json").write_text("{")
    assert len(running.running()) == 1
