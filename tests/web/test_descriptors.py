"""Open files: a flood of connections leaves enough of them to the meter, and their lack passes."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from streams.web.descriptors import KEPT, PASSING, connections_within
from tests.cli.command import ROOT


@pytest.mark.parametrize(
    ("limit", "wanted", "allowed"),
    [(1_024, 512, 512), (20_000, 512, 512), (512, 512, 192), (340, 512, 20), (256, 512, 16), (64, 512, 16), (1_024, 4_096, 704)],
)  # fmt: skip
def test_connections_leave_files_to_the_meter(limit: int, wanted: int, allowed: int) -> None:
    assert connections_within(limit, wanted) == allowed


_TRIES = 5


class Process:
    """A server with few open files."""

    def __init__(self, running: subprocess.Popen[str], said: Path) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        self._in: IO[str] = running.stdin
        self._out: IO[str] = running.stdout
        self._said = said
        self.limit = int(self._answer("limit"))
        self.url = self._answer("url")

    def _answer(self, word: str) -> str:
        line = self._out.readline()
        assert line.startswith(f"{word} "), line + self.said()
        return line.split()[1]

    def tell(self, line: str) -> int:
        """Tell it to do something; return how many files it holds then."""
        self._in.write(line + "\n")
        self._in.flush()
        return int(self._answer(line.split()[0]))

    def said(self) -> str:
        return self._said.read_text()

    def healthy(self) -> bool:
        """Whether it answers, to a client that comes again when it is told to."""
        for _ in range(_TRIES):
            try:
                with urlopen(f"{self.url}/healthz", timeout=20) as answer:
                    return bool(answer.status == 200)
            except HTTPError as fault:
                if fault.code != 503:
                    raise
                time.sleep(float(fault.headers["Retry-After"]))
        return False

    def connect(self) -> socket.socket:
        parts = urlsplit(self.url)
        return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)


@contextmanager
def process(tmp_path: Path, soft: int, hard: int) -> Iterator[Process]:
    """Start one; it ends when its stdin does."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    said = tmp_path / "said"
    with said.open("w") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-m", "tests.web.server_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=few_files,
        )
        try:
            yield Process(running, said)
            running.communicate(timeout=20)
            assert running.returncode == 0, said.read_text()
        finally:
            running.kill()


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with process(tmp_path, 256, 700) as server:
        assert server.limit == 700
        assert f'"connections_max": {700 - KEPT - PASSING}, "wanted": 8192' in server.said()
        assert server.healthy()


def test_idle_connections_leave_the_meter_its_files(tmp_path: Path) -> None:
    with process(tmp_path, 1_024, 1_024) as server:
        idle = [server.connect() for _ in range(1_100)]
        assert server.tell("hold 200") == 200, server.said()
        assert server.healthy()
        assert "no more" not in server.said()
        for each in idle:
            each.close()


def test_no_more_files_is_a_state_that_passes(tmp_path: Path) -> None:
    with process(tmp_path, 128, 128) as server:
        assert server.tell("hold all") > 10
        waiting = [server.connect() for _ in range(5)]
        for each in waiting:
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        waiting[0].settimeout(0.6)
        with pytest.raises(TimeoutError):
            waiting[0].recv(1)
        assert server.tell("free") == 0
        for each in waiting:
            each.settimeout(20)
            assert each.recv(100).startswith(b"HTTP/1.1 200")
            each.close()
        assert server.said().count('"reason": "Too many open files", "limit": 128') == 1
        assert "Traceback" not in server.said()
