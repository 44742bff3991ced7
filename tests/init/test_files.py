"""Files of a configuration: written once, updated where nobody changed them, kept where somebody did."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.errors import SinkError
from streams.errors import TrainfareError
from streams.init.files import (
    FileFate,
    InitState,
    PlannedFile,
    changes,
    read_state,
    write_files,
)


def written(directory: Path, *files: PlannedFile) -> dict[str, FileFate]:
    state = read_state(directory)
    found = changes(directory, files, state)
    write_files(directory, found, state)
    return {each.file.name: each.fate for each in found}


def test_a_file_is_for_this_user_alone(tmp_path: Path) -> None:
    directory = tmp_path / "live"
    written(directory, PlannedFile("a.toml", "x"), PlannedFile("sub/b", "y"))
    for path in (directory / "a.toml", directory / "sub/b", directory / "init.json"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert (directory / "sub").stat().st_mode & 0o777 == 0o700


def test_a_second_call_changes_nothing_that_a_person_has_changed(tmp_path: Path) -> None:
    first = [PlannedFile("a", "1\n"), PlannedFile("b", "1\n"), PlannedFile("c", "1\n")]
    assert set(written(tmp_path, *first).values()) == {FileFate.new}
    (tmp_path / "b").write_text("mine\n")
    assert written(tmp_path, PlannedFile("a", "2\n"), PlannedFile("b", "2\n"), PlannedFile("c", "1\n")) == {
        "a": FileFate.updated,
        "b": FileFate.kept,
        "c": FileFate.same,
    }
    assert (tmp_path / "a").read_text() == "2\n"
    assert (tmp_path / "b").read_text() == "mine\n"
    # What is kept stays a person's, also when the proposal changes back.
    assert written(tmp_path, PlannedFile("b", "1\n"))["b"] is FileFate.kept


def test_a_difference_is_shown(tmp_path: Path) -> None:
    written(tmp_path, PlannedFile("a", "1\n2\n"))
    (tmp_path / "a").write_text("1\n3\n")
    found = changes(tmp_path, [PlannedFile("a", "1\n2\n")], read_state(tmp_path))
    assert found[0].diff == ["--- a (there)", "+++ a (proposed)", "@@ -1,2 +1,2 @@", " 1", "-3", "+2"]


def test_a_long_difference_is_cut_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 5_000)
    (tmp_path / "a").chmod(0o600)
    found = changes(tmp_path, [PlannedFile("a", "y\n" * 5_000)], InitState())
    assert len(found[0].diff) == 201
    assert found[0].diff[-1].endswith("more lines")


def test_a_secret_is_written_once_and_never_compared(tmp_path: Path) -> None:
    written(tmp_path, PlannedFile("token", "first\n", is_secret=True))
    found = changes(tmp_path, [PlannedFile("token", "second\n", is_secret=True)], read_state(tmp_path))
    assert (found[0].fate, found[0].diff) == (FileFate.same, ())
    written(tmp_path, PlannedFile("token", "second\n", is_secret=True))
    assert (tmp_path / "token").read_text() == "first\n"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("whole")
    directory = tmp_path / "live"
    directory.mkdir(mode=0o700)
    (directory / "a").symlink_to(outside / "victim")
    with pytest.raises(SinkError, match="is a link"):
        written(directory, PlannedFile("a", "x"))
    (directory / "sub").symlink_to(outside)
    with pytest.raises(SinkError, match="is a link"):
        written(directory, PlannedFile("sub/new", "x"))
    (tmp_path / "way").symlink_to(directory)
    with pytest.raises(SinkError, match="is a link"):
        written(tmp_path / "way", PlannedFile("c", "x"))
    assert (outside / "victim").read_text() == "whole"
    assert sorted(path.name for path in outside.iterdir()) == ["victim"]


def test_a_file_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0o666)
    with pytest.raises(SinkError, match="may be written by other users"):
        changes(tmp_path, [PlannedFile("a", "y")], InitState())


@pytest.mark.parametrize("text", ["{", '{"form": 9}', '{"written": 1}', "[" * 100_000])
def test_a_state_of_another_version_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "init.json").write_text(text)
    (tmp_path / "init.json").chmod(0o600)
    with pytest.raises(TrainfareError, match="of another version of trainfare, or damaged"):
        read_state(tmp_path)
