"""Runs over files into a store, each in a process of its own, which may end by a kill; chDB knows one directory per process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from tests.forked import FORKER, ROOT, without_settings
from tests.new_store import begun

_KILLED: Final = -signal.SIGKILL


class RunProcess:
    """The runs of one `module:main`, which takes a JSON object as its only word and prints another one."""

    def __init__(self, main: str, timeout_s: float) -> None:
        self._main = main
        self._timeout_s = timeout_s

    def found(self, files: Sequence[Path], data: Path, **options: Any) -> dict[str, Any]:
        """What a run prints that must come to its end."""
        done = self._run(files, data, options)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        found: dict[str, Any] = orjson.loads(done.stdout)
        return found

    def killed(self, files: Sequence[Path], data: Path, **options: Any) -> None:
        """Run what must kill itself."""
        done = self._run(files, data, options)
        assert done.returncode == _KILLED, done.stderr.decode()[-3000:]

    def refused(self, files: Sequence[Path], data: Path, **options: Any) -> str:
        """Run what must not start, and return what it says."""
        done = self._run(files, data, options)
        assert done.returncode == 1
        return done.stderr.decode().strip().splitlines()[-1]

    def _run(
        self, files: Sequence[Path], data: Path, options: dict[str, Any]
    ) -> subprocess.CompletedProcess[bytes]:
        begun(data)
        job = orjson.dumps({"files": [str(file) for file in files], "data": str(data), **options})
        return FORKER.run(
            self._main, job.decode(), env=without_settings(), cwd=ROOT, timeout_s=self._timeout_s
        )
