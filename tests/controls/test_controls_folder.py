"""A folder of controls is read as one whole: in order of names, and never past a loop, a pipe or a file without end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.controls.folder import CONTROLS_AT_MOST, FILES_AT_MOST, Folder, read_folder
from streams.errors import WrongUseError

NOW_MS = 1_795_000_000_000
ONE = '[[silence]]\nname = "{}"\nteam = "v"\n'


def read(folder: Path) -> Folder:
    return read_folder(folder, "t", NOW_MS)


def fault(folder: Path) -> str:
    (found,) = read(folder).faults
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "controls"
    made.mkdir()
    (made / "b.toml").write_text(ONE.format("b"))
    return made


def test_files_below_it_are_read_by_name_and_others_passed_over(folder: Path) -> None:
    (folder / "x.toml" / "deeper").mkdir(parents=True)
    (folder / "x.toml" / "deeper" / "c.TOML").write_text(ONE.format("c"))
    (folder / "a.toml").write_text("\ufeff" + ONE.format("a").replace("\n", "\r\n"))
    (folder / "README.md").write_text("no TOML")
    (folder / ".git").mkdir()
    (folder / ".git" / "d.toml").write_text("no TOML")
    (folder / ".e.toml").write_text("no TOML")
    (folder / "f.toml").symlink_to(folder.parent / "elsewhere")
    (folder.parent / "elsewhere").write_text(ONE.format("f"))
    found = read(folder)
    assert (found.files, found.faults) == (4, [])
    assert [record.event.name for record in found.records] == ["a", "b", "f", "c"]
    assert found.records[3].where == f"{folder}/x.toml/deeper/c.TOML line 1"


def test_the_same_control_twice_is_refused_where_it_stands_again(folder: Path) -> None:
    (folder / "c.toml").write_text('# c\n[[planned]]\nname = "b"\nusd_per_hour = 1\n' + ONE.format("b"))
    assert fault(folder) == (
        f"{folder}/c.toml line 6: silence/b: name: {folder}/b.toml line 1 has a silence of this name, too"
    )


def test_every_fault_of_every_file_is_found(folder: Path) -> None:
    (folder / "a.toml").write_text(ONE.format("a") + "tem = 1\n" + ONE.format("c") + "tem = 1\n")
    (folder / "c.toml").write_text("[")
    assert [each.partition(":")[0] for each in read(folder).faults] == [
        f"{folder}/a.toml line 4", f"{folder}/a.toml line 8", f"{folder}/c.toml"
    ]  # fmt: skip


def test_a_link_to_a_folder_is_refused_and_a_loop_ends(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    assert fault(folder) == (
        f"{folder}/loop: a link to a folder, which is not followed; put the folder itself here"
    )


@pytest.mark.parametrize("target", ["/dev/zero", "/nowhere", "link.toml"])
def test_a_link_to_no_file_is_refused(folder: Path, target: str) -> None:
    (folder / "link.toml").symlink_to(target)
    assert fault(folder) == f"{folder}/link.toml: no file that can be read, or a link to none; remove it"


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.toml")
    assert "pipe.toml: no file that can be read" in fault(folder)


def test_of_a_large_file_only_the_beginning_is_read(folder: Path) -> None:
    with (folder / "large.toml").open("wb") as file:
        file.truncate(2**30)
    assert fault(folder) == f"{folder}/large.toml: more than 1048576 bytes; split it into several files"


def test_bytes_that_are_no_text_are_refused_with_their_line(folder: Path) -> None:
    (folder / "c.toml").write_bytes(b'[[silence]]\nname = "\xff"\n')
    assert fault(folder) == f"{folder}/c.toml line 2: not UTF-8 (byte 0xff)"


def test_a_name_on_disk_that_is_no_text_can_be_printed(folder: Path) -> None:
    (folder / os.fsdecode(b"c\xff\x1b.toml")).write_text(ONE.format("c"))
    assert read(folder).records[1].file.encode() == f"{folder}/c\\xff\x1b.toml".encode()


@pytest.fixture
def deep(folder: Path) -> Iterator[Path]:
    """A folder nested more deeply than calls, flattened in the end: what clears up after tests calls itself for each."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 50):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    file = os.open("deep.toml", os.O_CREAT | os.O_WRONLY, dir_fd=at)
    os.write(file, ONE.format("deep").encode())
    os.close(file)
    os.close(at)
    yield folder
    while (folder / "d" / "d").exists():
        (folder / "d" / "d").rename(folder / "e")
        (folder / "d").rmdir()
        (folder / "e").rename(folder / "d")


def test_folders_may_be_nested_more_deeply_than_calls(deep: Path) -> None:
    assert [record.event.name for record in read(deep).records] == ["b", "deep"]


def test_what_is_no_folder_of_controls_is_refused(folder: Path) -> None:
    (folder.parent / "empty").mkdir()
    for path, says in (
        (folder.parent / "none", "no such folder"),
        (folder / "b.toml", "not a folder"),
        (folder.parent / "empty", "no file *.toml below it"),
    ):
        with pytest.raises(WrongUseError, match="name a folder") as refused:
            read(path)
        assert says in str(refused.value)


def test_a_folder_has_so_many_files_controls_and_rules(folder: Path) -> None:
    rule = '[[rule]]\nname = "{}"\nrule = "traffic"\nenabled = false\n'
    for part in ("x", "y"):
        (folder / f"{part}.toml").write_text("".join(rule.format(f"{part}{k}") for k in range(501)))
    assert fault(folder).startswith(f"{folder}: 1002 tables [[rule]], 1000 at most")
    for number in range(CONTROLS_AT_MOST // 1_000 + 1):
        (folder / f"{number}.toml").write_text(
            "".join(f'[[owner]]\nname = "{number}/{k}"\nemail = "a@b"\n' for k in range(1_000))
        )
    with pytest.raises(WrongUseError, match="more than 10000 controls"):
        read(folder)
    for number in range(FILES_AT_MOST):
        (folder / f"f{number}.toml").touch()
    with pytest.raises(WrongUseError, match=f"files \\*.toml, {FILES_AT_MOST} at most"):
        read(folder)
