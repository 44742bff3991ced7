"""Processes that begin with everything loaded: one that has imported the product forks itself for each command.

What a real start and a real end cost, and that they work, is for the tests that make one.

One fork stays, for commands that only read a store: ClickHouse is loaded in it once, two fifths of what such a command costs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from tests.query import priority

ROOT = Path(__file__).parents[1]
_WIDTH = 12
# With what the product loads only when it needs it. Not chDB: it begins threads as it is loaded, and a fork has none of them.
LOADED = (
    "streams.cli.main",
    "streams.app",
    "streams.replay.replay",
    "streams.transport.meter_app",
    "tests.cli.variants",
    "pandas",
)


class Forked:
    """A fork that goes on by itself, as far as a `subprocess.Popen` is asked for. It is nobody's child here."""

    def __init__(self, pid: int, code: IO[bytes]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._code = code  # written when it has ended

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None:
            self._code.seek(0)
            said = self._code.read()
            self.returncode = int(said) if len(said) == _WIDTH else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired(["a fork"], timeout or 0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Signal it, if it still lives."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Forker:
    """The process that forks; started when it is first needed, and gone with ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        function: str,
        *words: str,
        env: Mapping[str, str],
        cwd: Path | None,
        timeout_s: float,
        shared: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Call `module:function` with the words in a fork, to its end; TimeoutExpired kills it.

        `shared`: in the fork that stays, after all that was called there.
        """
        with self._lock, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams = [_path_of(file) for file in (out, err)]
            process, pid = self._forked(function, words, env=env, cwd=cwd, streams=streams, shared=shared)
            try:
                code = self._answer(process, timeout_s)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._answer(process, 60)
                raise subprocess.TimeoutExpired([function, *words], timeout_s) from None
            self._process = process
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([function, *words], code, out.read(), err.read())

    def start(
        self, function: str, *words: str, env: Mapping[str, str], cwd: Path, out: Path | None, err: Path
    ) -> Forked:
        """Call `module:function` with the words in a fork that goes on by itself, in a session of its own.

        What it writes is appended to the files.
        """
        code = tempfile.TemporaryFile()  # noqa: SIM115  # closed with what is returned
        err.touch()
        with self._lock:
            streams = [str(out or os.devnull), str(err)]
            options = {"env": env, "cwd": cwd, "streams": streams, "code": _path_of(code)}
            self._process, pid = self._forked(function, words, **options)  # type: ignore[arg-type]  # each is what its name takes
        return Forked(pid, code)

    def _forked(
        self,
        function: str,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None,
        streams: Sequence[str],
        code: str | None = None,
        shared: bool = False,
    ) -> tuple[subprocess.Popen[bytes], int]:
        """The process that forks and the fork's pid. Nobody's until it has answered: whoever is interrupted in between
        leaves it to its end."""
        process, self._process = self._started(), None
        job = {"function": function, "words": words, "env": dict(env), "cwd": str(cwd or Path.cwd())}
        assert process.stdin is not None
        more = {"streams": streams, "code": code, "shared": shared}
        process.stdin.write(json.dumps(job | more).encode() + b"\n")
        return process, self._answer(process, 240)  # at first it loads

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                env=without_settings(),
                bufsize=0,
            )
            atexit.register(self.stop)
        return self._process

    @staticmethod
    def _answer(process: subprocess.Popen[bytes], timeout_s: float) -> int:
        """The next number; it has a width of its own, so that nothing is read ahead."""
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            raise TimeoutError
        answer = process.stdout.read(_WIDTH)
        assert len(answer) == _WIDTH, "the process that forks has ended"
        return int(answer)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


FORKER = Forker()


def _path_of(file: IO[bytes]) -> str:
    """For another process."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def without_settings() -> dict[str, str]:
    """Our environment without settings of the meter."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def _serve() -> None:
    """Fork for each line; the answer is the pid, and the exit code when there is one."""
    answers = os.dup(1)
    for name in LOADED:
        importlib.import_module(name)
    importlib.import_module("streams.cli.main").build()  # every verb
    priority.keep(pytest.MonkeyPatch())
    importlib.import_module("streams.engine.kernels.warm").compile_all()
    inspect.getmodule(
        inspect.currentframe()
    )  # Faust asks once in each process, and all modules are looked through
    gc.freeze()
    shared: SharedFork | None = None
    for line in iter(sys.stdin.readline, ""):
        job: dict[str, Any] = json.loads(line)
        if job["shared"]:
            if shared is None:
                shared = SharedFork(answers)
            os.write(answers, f"{shared.pid:{_WIDTH}}".encode())
            code = shared.code_of(line)
            if code is None:
                code, shared = shared.ended(), None
            os.write(answers, f"{code:{_WIDTH}}".encode())
            continue
        pid = os.fork()
        if pid == 0:
            if shared is not None:
                shared.forget()
            if job["code"] is not None:
                _wait_for_another(answers, job["code"])
            os.close(answers)
            _end(_done(job))
        if job["code"] is not None:
            continue
        os.write(answers, f"{pid:{_WIDTH}}".encode())
        os.write(answers, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):{_WIDTH}}".encode())


class SharedFork:
    """A fork that carries out one job after the other; what a command does not close, the next one finds."""

    def __init__(self, answers: int) -> None:
        """`answers`: not for the fork to write to."""
        jobs, self._jobs = os.pipe()
        self._codes, codes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(answers)
            self.forget()
            with open(jobs) as lines:  # noqa: PTH123  # a pipe
                for line in lines:
                    code = _done(json.loads(line))
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os.write(codes, f"{code:{_WIDTH}}".encode())
            os._exit(0)
        os.close(jobs)
        os.close(codes)

    def code_of(self, line: str) -> int | None:
        """The exit code of the job; None if the fork has ended instead."""
        os.write(self._jobs, line.encode())
        said = os.read(self._codes, _WIDTH)
        return int(said) if said else None

    def ended(self) -> int:
        """The exit code of the fork itself."""
        self.forget()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def forget(self) -> None:
        """Close our ends, so that the fork ends when no other process has them."""
        os.close(self._jobs)
        os.close(self._codes)


def _done(job: Mapping[str, Any]) -> int:
    """The exit code of a job that this process does."""
    _become(job["env"], job["cwd"], job["streams"])
    module, _, function = job["function"].partition(":")
    return _code_of(getattr(importlib.import_module(module), function), job["words"])


def _wait_for_another(answers: int, code: str) -> None:
    """Fork once more and return in that fork; this one answers its pid, and leaves its exit code when it has ended."""
    with open(code, "r+b", buffering=0) as file:  # noqa: PTH123  # of a process, not of a directory
        pid = os.fork()
        if pid == 0:
            os.setsid()
            return
        os.write(answers, f"{pid:{_WIDTH}}".encode())
        os.close(answers)
        file.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):{_WIDTH}}".encode())
    os._exit(0)


def _code_of(function: Callable[[Sequence[str]], object], words: Sequence[str]) -> int:
    """The exit code that the interpreter would make of a call."""
    try:
        function(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
            return 1
        return end.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> None:
    """As a process ends, with all that is registered for it; but to free each object that is loaded would copy it first."""
    threading._shutdown()  # type: ignore[attr-defined]  # the interpreter's own, as is the next
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _become(env: Mapping[str, str], cwd: str, streams: Sequence[str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *((path, os.O_WRONLY | os.O_APPEND) for path in streams)]
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["trainfare"]


if __name__ == "__main__":
    _serve()
