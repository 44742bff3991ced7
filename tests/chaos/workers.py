"""Real `trainfare worker` processes of one group, each in a process group of its own, all gone at the end."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.forked import FORKER, Forked

ROOT: Final = Path(__file__).parents[2]
#: Far beyond what a stop, a kill or a start takes: a machine that is busy with other things is no fault of a worker.
STOP_TIMEOUT_S: Final = 120.0
_KILL_TIMEOUT_S: Final = 60.0
COMMAND: Final = ("streams.cli.main",)
OWN_PRESENT: Final = ("tests.chaos.patched", "own_present")
_START_TIMEOUT_S: Final = 180.0
_LOAD_TIMEOUT_S: Final = 300.0
_READY: Final = "shard begins"


@dataclass
class Worker:
    """One life of a worker."""

    name: str
    process: subprocess.Popen[bytes] | Forked
    log: Path
    expected_end: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def text(self) -> str:
        """What it has said so far."""
        return self.log.read_text(errors="replace")

    def count(self, words: str) -> int:
        return self.text().count(words)

    def signal(self, number: signal.Signals) -> None:
        """Signal it, if it still lives."""
        if self.alive:
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """As a machine that loses its power."""
        self.expected_end = True
        self.signal(signal.SIGKILL)
        self.process.wait(_KILL_TIMEOUT_S)

    def ask_to_stop(self) -> None:
        """In order; once, as a second time means at once."""
        self.expected_end = True
        self.signal(signal.SIGTERM)

    def terminate(self) -> int:
        """Stop in order; returns the exit code, or kills it when it takes too long and returns that."""
        if not self.expected_end:
            self.ask_to_stop()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self.process.wait(_KILL_TIMEOUT_S)

    def wait_until(self, words: str, patience_s: float = _START_TIMEOUT_S) -> None:
        """Return once it has said this."""
        deadline_s = time.monotonic() + patience_s
        while words not in self.text():
            assert self.alive, self.text()[-3000:]
            assert time.monotonic() < deadline_s, self.text()[-3000:]
            time.sleep(0.05)

    def wait_ready(self, patience_s: float = _START_TIMEOUT_S) -> None:
        """Return once it holds a shard."""
        self.wait_until(_READY, patience_s)


@dataclass
class Workers:
    """The lives of all workers; `env` holds the settings they share."""

    directory: Path
    env: dict[str, str]
    module: tuple[str, ...] = COMMAND  # and what goes before `worker`
    lives: list[Worker] = field(default_factory=list)

    def start(self, **env: str) -> Worker:
        """Another worker; it needs some seconds until it has joined."""
        name = f"w{len(self.lives)}"
        log = self.directory / f"{name}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TRAINFARE_")}
        environment = {**inherited, "PYTHONPATH": str(ROOT), **self.env, **env}
        worker = Worker(name, self._process(environment, log), log)
        self.lives.append(worker)
        return worker

    def _process(self, env: dict[str, str], log: Path) -> subprocess.Popen[bytes] | Forked:
        module, *words = self.module
        if self.module in (COMMAND, OWN_PRESENT):
            return FORKER.start(f"{module}:main", *words, "worker", env=env, cwd=ROOT, out=log, err=log)
        with log.open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", *self.module, "worker"],
                cwd=ROOT,
                env=env,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @staticmethod
    def load() -> None:
        """Let what forks load the product now, which can take minutes on a machine that is busy."""
        FORKER.run(
            "streams.cli.main:main", "--version", env=dict(os.environ), cwd=ROOT, timeout_s=_LOAD_TIMEOUT_S
        )

    @property
    def alive(self) -> list[Worker]:
        return [worker for worker in self.lives if worker.alive]

    def ended_by_themselves(self) -> list[Worker]:
        """Workers that nobody ended."""
        return [worker for worker in self.lives if not worker.alive and not worker.expected_end]

    def count(self, words: str) -> int:
        """How often all of them have said this."""
        return sum(worker.count(words) for worker in self.lives)

    def end(self) -> None:
        """Leave nothing behind."""
        for worker in self.lives:
            if worker.alive:
                worker.signal(signal.SIGCONT)
                worker.kill()

    def __enter__(self) -> Self:
        atexit.register(self.end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        atexit.unregister(self.end)
