"""What a terminal is shown while a command works, and that nothing else is shown anything."""

from __future__ import annotations

import io

import pytest

from streams.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_stage_is_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("judging", None) as advance:
        advance(1_000)
        advance.stage("sql/dear", 1, 2_073)
        advance.stage("sql/dear", 489, 2_073)
    shown = terminal.getvalue()
    assert "sql/dear" in shown
    assert "489/2073" in shown


def test_where_there_is_no_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with progress("judging", None) as advance:
        advance(1_000)
        advance.stage("sql/dear", 489, 2_073)
    assert pipe.getvalue() == ""
