"""Exit codes, and what is said of a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from sinks.errors import QueryFailed, QueryRefused, StoreInUse, StoreMismatch, StoreUnreachable
from streams.cli.faults import guarded
from streams.errors import TrainfareError, WrongUseError


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (TrainfareError("x"), 1),
        (WrongUseError("x"), 2),
        (StoreInUse("x"), 1),
        (StoreUnreachable("x"), 1),
        (QueryFailed("x"), 1),
        (QueryRefused("x"), 2),
        (StoreMismatch("x"), 2),
        (typer.BadParameter("x"), 2),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 1),
        (FileNotFoundError(2, "No such file", "x"), 1),
        (typer.Exit(3), 3),
    ],
)
def test_exit_code_and_one_line(fault: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise fault

    assert guarded(command) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == (0 if isinstance(fault, typer.Exit) else 1)
    assert "Traceback" not in said.err


def test_done_is_zero() -> None:
    assert guarded(lambda: None) == 0


def test_unforeseen_fault_is_named_and_shown_whole_only_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> None:
        raise ZeroDivisionError("first\nsecond")

    monkeypatch.delenv("TRAINFARE_DEBUG", raising=False)
    guarded(command)
    assert capsys.readouterr().err == (
        "trainfare: internal fault: ZeroDivisionError: first second; TRAINFARE_DEBUG=1 shows where\n"
    )
    monkeypatch.setenv("TRAINFARE_DEBUG", "1")
    guarded(command)
    assert "Traceback" in capsys.readouterr().err


def test_a_directory_that_was_removed_under_the_shell_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    def command() -> None:
        Path("meter").resolve()

    assert guarded(command) == 1
    monkeypatch.undo()
    assert capsys.readouterr().err == (
        "trainfare: the current directory was removed; change to one that exists, and run the same command again\n"
    )


def test_an_argument_of_no_utf8_is_wrong_use_and_no_fault_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise TypeError("str is not valid UTF-8: surrogates not allowed")

    monkeypatch.setattr("sys.argv", ["trainfare", "jobs", "--team", "\udcff"])
    assert guarded(command) == 2
    assert capsys.readouterr().err == "trainfare: \\udcff: this argument is no text in UTF-8\n"
    monkeypatch.setattr("sys.argv", ["trainfare", "jobs", "--team", "ö"])
    assert guarded(command) == 1
