"""What makes two builds of a release the same: neither the time of the build nor who built it is in an archive."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from deploy.build_dist import epoch, levelled


def archive(*, at_s: int, owner: str, mode: int, names: tuple[str, ...] = ("a/b", "a/c")) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as file:
        for name in names:
            member = tarfile.TarInfo(name)
            member.mtime, member.uname, member.mode, member.size = at_s, owner, mode, 3
            file.addfile(member, io.BytesIO(b"abc"))
    return made.getvalue()


def test_time_owner_order_and_umask_are_levelled() -> None:
    one = archive(at_s=1, owner="ada", mode=0o600)
    two = archive(at_s=2, owner="grace", mode=0o664, names=("a/c", "a/b"))
    assert one != two
    assert levelled(one, 5) == levelled(two, 5)
    assert levelled(one, 5) != levelled(one, 6)


def test_contents_and_who_may_run_them_are_kept() -> None:
    script = archive(at_s=1, owner="ada", mode=0o700)
    with tarfile.open(fileobj=io.BytesIO(levelled(script, 5))) as file:
        members = file.getmembers()
        taken = file.extractfile(members[0])
        assert taken is not None
        assert taken.read() == b"abc"
    assert [(each.name, each.mode, each.mtime) for each in members] == [("a/b", 0o755, 5), ("a/c", 0o755, 5)]


def test_the_time_is_given_or_that_of_the_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    assert epoch() == "7"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert int(epoch()) > 1_600_000_000
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert epoch(tmp_path) == "946684800", "no checkout, as in an unpacked sdist"
