"""What `trainfare init` starts on this machine, beside a scheduler that is really there: commands, figures, an end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Final

from tests.forked import without_settings
from tests.kafka.broker import _free_ports

_PATIENCE_S: Final = 300.0


class StartedMeter:
    """A directory in which `init` is called, and commands beside the processes that it starts."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        self.directory = folder / "live"
        self.env = {
            **without_settings(),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TZ": "UTC",
            "TRAINFARE_WEB_PORT": str(_free_ports(1)[0]),
            "TRAINFARE_LOG_LEVEL": "warning",
            **env,
        }

    def run(self, *words: object, code: int = 0) -> str:
        done = self._done(words)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def answer(self, *words: object) -> str:
        """What a question is answered with; where the machine is so busy that the meter cannot, it is asked again."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            done = self._done(words)
            if done.returncode == 0:
                return done.stdout
            assert "ask again" in done.stderr, done.stderr
            assert time.monotonic() < deadline_s, f"{done.stderr}\n{self.logs()}"

    def _done(self, words: tuple[object, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in words],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    def begin(self, *words: object) -> subprocess.Popen[bytes]:
        """Begin `init`, and return once it waits for the first priced job."""
        with (self.folder / "said").open("wb") as out:
            command = ["trainfare", "init", *(str(word) for word in words), "--yes", "--wait", "900"]
            process = subprocess.Popen(
                command, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self.until(lambda: process.poll() is not None or "waiting up to" in self.said(), self.said)
        assert process.poll() is None, self.said()
        return process

    def said(self) -> str:
        """What `init` has said so far."""
        return (self.folder / "said").read_text()

    def metered(self) -> dict[str, tuple[str, Decimal]]:
        """State and dollars of each job; GPU-time without a price fails."""
        jobs = json.loads(self.answer("trainfare", "jobs", "--data", self.directory, "--format", "json"))
        assert all(Decimal(job["unpriced_gpu_h"]) == 0 for job in jobs), jobs
        return {job["job_id"]: (job["state"], Decimal(job["cost_usd"])) for job in jobs}

    def until(self, ready: Callable[[], bool], shown: Callable[[], object] = lambda: "") -> None:
        """Return once it is so."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not ready():
            assert time.monotonic() < deadline_s, f"{shown()}\n{self.logs()}"
            time.sleep(1)

    def until_metered(self, wanted: Callable[[], dict[str, tuple[str, Decimal]]]) -> None:
        """Return once the meter has just these states and dollars."""
        self.until(lambda: self.metered() == wanted(), lambda: (self.metered(), wanted()))

    def logs(self) -> str:
        return "\n".join(path.read_text()[-1_500:] for path in (self.directory / "logs").glob("*.log"))

    def stop(self) -> None:
        for path in self.directory.glob("*.json"):
            for pid in re.findall(r'"trainfare[^"]*":\[(\d+),', path.read_text()):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM)
