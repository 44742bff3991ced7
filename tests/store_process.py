"""Starts, faults, kills and restarts `tests.store_front` as a process of its own, on a port that stays."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from sinks.clickhouse import Server
from tests.new_store import begun
from tests.store_faults import Fault

ROOT = Path(__file__).parents[1]


class StoreProcess:
    """A ClickHouse server for tests; `start` after `kill` brings it back with its data, at the same address."""

    def __init__(self, data_dir: Path, *, copied: bool = True, options: Sequence[str] = ()) -> None:
        """`copied`: with the tables of an empty store from the first start on, so that nobody migrates it.

        `options`: more ones of `tests.store_front`.
        """
        self._options = options
        self._data_dir = begun(data_dir) if copied else data_dir
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def target(
        self, database: str = "trainfare", *, retry_for_s: float = 10.0, timeout_s: int = 30
    ) -> Server:
        return Server(
            url=self.url,
            database=database,
            compress=False,
            retry_for_s=retry_for_s,
            request_timeout_s=timeout_s,
        )

    def start(self) -> Self:
        options = ["--data", str(self._data_dir), "--port", str(self.port), *self._options]
        command = [sys.executable, "-m", "tests.store_front", *options]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the store front did not start; its stderr says why"
        self.port = json.loads(line)["port"]
        return self

    def fault(self, kind: Fault, times: int = 1, *, on: str = "insert", delay_s: float = 0.0) -> None:
        query = urlencode({"kind": kind, "times": times, "on": on, "delay_s": delay_s})
        with urlopen(Request(f"{self.url}/fault?{query}", data=b""), timeout=10):
            pass

    def faultless(self) -> None:
        """Forget the faults still to come."""
        with urlopen(Request(f"{self.url}/faultless", data=b""), timeout=10):
            pass

    def fired(self) -> dict[str, int]:
        """How often each fault came about since the process started."""
        with urlopen(f"{self.url}/fired", timeout=10) as answer:
            found: dict[str, int] = json.loads(answer.read())
        return found

    def forms(self) -> int:
        """How many requests came as a form since the process started: those with long parameters."""
        with urlopen(f"{self.url}/multipart", timeout=10) as answer:
            found: int = json.loads(answer.read())
        return found

    def died(self, within_s: float) -> bool:
        """Whether it has ended by itself, or does within this time."""
        assert self._process is not None
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
