"""Files of this user alone: modes, and every refusal. Owners are played by the user that the process believes it is."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.errors import SinkError
from sinks.private_files import make_private_dir, open_private, read_private, write_private
from tests.logged import events

OTHER_USER = 54_321
_REAL_USER = os.geteuid()


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Modes must not come from a careful umask."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process owned is another user's from here on; neither of them is root."""
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    make_private_dir(tmp_path / "above" / "data")
    assert mode(tmp_path / "above" / "data") == 0o700


def test_a_directory_open_to_others_is_closed_once_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "lock").touch()
    with caplog.at_level(logging.WARNING):
        make_private_dir(data)
        make_private_dir(data)
    assert mode(data) == 0o700
    (said,) = events(caplog.records)
    assert said[1] == {"path": str(data), "old_mode": "0755"}


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o755)
    (tmp_path / "data").symlink_to(tmp_path / "target")
    with pytest.raises(SinkError, match="data is a link"):
        make_private_dir(tmp_path / "data")
    assert mode(tmp_path / "target") == 0o755


def test_a_link_to_nowhere_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(tmp_path / "target")
    with pytest.raises(SinkError, match="data is a link"):
        make_private_dir(tmp_path / "data")
    assert not (tmp_path / "target").exists()


def test_a_link_above_the_directory_is_the_systems_matter(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "above").symlink_to(tmp_path / "target")
    make_private_dir(tmp_path / "above" / "data")
    assert mode(tmp_path / "target" / "data") == 0o700


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(SinkError, match="data: Not a directory; a file stands where a directory must be"):
        make_private_dir(tmp_path / "data")


@pytest.mark.usefixtures("as_another_user")
@pytest.mark.parametrize("wide", [0o700, 0o777])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, wide: int) -> None:
    (tmp_path / "data").mkdir(mode=wide)
    with pytest.raises(
        SinkError, match=f"belongs to user {_REAL_USER}, this process is of user {OTHER_USER}"
    ):
        make_private_dir(tmp_path / "data")
    assert mode(tmp_path / "data") == wide


def test_a_directory_that_users_share_is_refused_and_not_closed_to_them(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(SinkError, match="is shared with other users"):
        make_private_dir(shared)
    assert mode(shared) == 0o1777


def test_a_directory_with_a_file_of_another_user_is_refused_and_not_closed_to_them(tmp_path: Path) -> None:
    if _REAL_USER != 0:
        pytest.skip("only root can give a file away")
    shared = tmp_path / "srv"
    shared.mkdir(mode=0o755)
    (shared / "theirs").touch()
    os.chown(shared / "theirs", OTHER_USER, OTHER_USER)
    with pytest.raises(SinkError, match="is shared with other users"):
        make_private_dir(shared)
    assert mode(shared) == 0o755


def test_a_file_is_written_for_its_owner_only_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "api.json"
    path.write_text("older, and open to all")
    path.chmod(0o666)
    write_private(path, b"new")
    assert mode(path) == 0o600
    assert read_private(path, 3) == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["api.json"]


def test_writing_replaces_a_planted_link_and_leaves_its_target(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    path = tmp_path / "api.json"
    path.symlink_to(target)
    write_private(path, b"new")
    assert target.read_text() == "precious"
    assert not path.is_symlink()


def test_a_write_that_fails_leaves_the_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "api.json"
    write_private(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        SinkError, match=r"api\.json cannot be written: No space left on device; make room for it"
    ):
        write_private(path, b"new")
    assert read_private(path, 100) == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_below_a_file_is_refused_with_what_mends_it(tmp_path: Path) -> None:
    (tmp_path / "live").touch()
    with pytest.raises(SinkError, match="cannot be opened: Not a directory; a file stands where a directory"):
        read_private(tmp_path / "live" / "collect.toml", 100)


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_private(tmp_path / "token", 10) is None


def test_reading_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "token").symlink_to(tmp_path / "target")
    with pytest.raises(SinkError, match="token is a link"):
        read_private(tmp_path / "token", 100)


def test_reading_refuses_what_is_no_regular_file_and_waits_for_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dir").mkdir()
    for name in ("pipe", "dir"):
        with pytest.raises(SinkError, match="no regular file"):
            read_private(tmp_path / name, 100)


@pytest.mark.parametrize("wide", [0o620, 0o602, 0o666])
def test_reading_refuses_what_others_may_write(tmp_path: Path, wide: int) -> None:
    path = tmp_path / "token"
    path.touch(mode=wide)
    with pytest.raises(SinkError, match=r"may be written by other users.*chmod go-w"):
        read_private(path, 100)


def test_reading_refuses_a_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o644)
    if _REAL_USER == 0:
        os.chown(path, OTHER_USER + 1, OTHER_USER + 1)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    with pytest.raises(SinkError, match="belongs to user"):
        read_private(path, 100)


def test_reading_refuses_a_longer_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, b"x" * 11)
    with pytest.raises(SinkError, match="longer than 10 bytes"):
        read_private(path, 10)


def test_opening_makes_or_tightens_a_file_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    assert mode(path) == 0o600
    path.chmod(0o644)
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    assert mode(path) == 0o600


@pytest.mark.parametrize("there", [True, False])
def test_opening_follows_no_link_and_makes_no_file_through_one(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "target"
    if there:
        target.write_text("precious")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(SinkError, match="lock is a link"):
        open_private(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    assert target.exists() == there


def test_opening_refuses_a_second_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "lock").hardlink_to(tmp_path / "target")
    with pytest.raises(SinkError, match="hard link"):
        open_private(tmp_path / "lock", os.O_RDWR | os.O_CREAT)


@pytest.mark.usefixtures("as_another_user")
def test_opening_refuses_a_file_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with pytest.raises(SinkError, match=f"belongs to user {_REAL_USER}"):
        open_private(tmp_path / "lock", os.O_RDWR | os.O_CREAT)


def test_opening_refuses_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(SinkError, match="no regular file"):
        open_private(tmp_path / "lock", os.O_RDWR | os.O_CREAT)


def test_nothing_is_emptied_before_it_is_looked_at(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="O_TRUNC"):
        open_private(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
