"""A command that is silent for seconds says on a terminal that it is still at work, and nothing where nobody looks."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from streams.cli.main import COMMANDS, GROUPS
from streams.cli.patience import FIRST_S, still_at_work


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A terminal to write to, and what reads it."""
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as stream:
        yield stream, reader
    os.close(reader)


def test_a_terminal_is_told_what_is_still_at_work(terminal: tuple[TextIO, int]) -> None:
    stream, reader = terminal
    with still_at_work("costs", stream, first_s=0.01):
        said = os.read(reader, 1_000).decode()  # waits for the line
    assert said.splitlines()[0] == "trainfare: costs is still at work, 0 s so far; Ctrl-C ends it"


def test_what_ends_in_time_says_nothing(terminal: tuple[TextIO, int]) -> None:
    stream, reader = terminal
    with still_at_work("costs", stream):
        pass
    stream.write("end\n")
    stream.flush()
    assert os.read(reader, 1_000) == b"end\r\n"
    assert FIRST_S == 2


@pytest.mark.parametrize("command", ["top", "replay", "gameday", "dead-letters replay"])
def test_what_says_so_itself_is_left_alone(command: str, terminal: tuple[TextIO, int]) -> None:
    stream, _ = terminal
    threads = threading.active_count()
    with still_at_work(command, stream):
        assert threading.active_count() == threads
    first, _, verb = command.partition(" ")
    verbs = {name for name, *_ in COMMANDS} | {
        f"{group} {name}" for group, _, inside in GROUPS for name, *_ in inside
    }
    assert f"{first} {verb}".strip() in verbs


def test_a_pipe_gets_no_line() -> None:
    said = io.StringIO()
    with still_at_work("costs", said, first_s=0):
        pass
    assert said.getvalue() == ""
