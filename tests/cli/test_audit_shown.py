"""A line of the audit on a terminal: broken between words, never within one."""

from __future__ import annotations

import io
import re
import sys

import pytest

from streams.cli.audit import _line


class Terminal(io.StringIO):
    """Text that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_line_of_the_audit_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", "40")
    said = "  job_hours       the hours of 8 months of shards cost what their minutes cost"
    _line("ok  ", ok=True, after=said)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()
    assert len(lines) > 1
    assert " ".join(lines).split() == ["ok", *said.split()]
