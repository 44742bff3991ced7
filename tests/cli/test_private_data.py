"""The data directory as the command leaves it: for this user alone, and no link in it is followed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.command import Done, trainfare
from tests.cli.test_metered import LINES


def replay(data: Path, events: Path) -> Done:
    """Replay as a user whose umask opens everything to everybody."""
    words = ("replay", events, "--data", data)
    return trainfare(*words, function="tests.cli.variants:open_to_all", new_store="begun")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(LINES))
    return path


def open_to_others(data: Path) -> list[Path]:
    """Return what others may read or write; a link has no mode of its own."""
    found = [data, *data.rglob("*")]
    assert len(found) > 100, "the engine's files are there"
    return [each for each in found if not each.is_symlink() and stat.S_IMODE(each.lstat().st_mode) & 0o077]


def test_a_fresh_directory_is_for_its_owner_with_all_that_is_in_it(tmp_path: Path, events: Path) -> None:
    done = replay(tmp_path / "meter", events)
    assert done.code == 0, done.err
    assert open_to_others(tmp_path / "meter") == []


def test_a_directory_that_was_open_is_closed(tmp_path: Path, events: Path) -> None:
    data = tmp_path / "meter"
    data.mkdir()
    data.chmod(0o755)
    done = replay(data, events)
    assert done.code == 0, done.err
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert "directory was open to other users" in done.err
    assert "0755" in done.err


@pytest.mark.parametrize("name", ["lock", "clickhouse"])
def test_a_planted_link_is_refused_and_its_target_is_as_it_was(
    tmp_path: Path, events: Path, name: str
) -> None:
    data = tmp_path / "meter"
    data.mkdir(mode=0o700)
    target = tmp_path / "target"
    if name == "lock":
        target.write_text("precious")
    else:
        target.mkdir()
    (data / name).symlink_to(target)
    done = replay(data, events)
    assert done.code == 1
    assert f"{name} is a link" in done.err
    assert "Traceback" not in done.err
    assert target.read_text() == "precious" if target.is_file() else list(target.iterdir()) == []
