"""What a latency run stands on: a real broker, a worker in a process of its own, the machine they share.

It must not measure: it starts things, stops them and says what they are.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import orjson
import urllib3

from streams.config import ClickHouseSettings, KafkaSettings, Settings
from streams.transport.admin import connect, create_topics
from streams.web import endpoint
from tests.kafka.broker import VERSION, KafkaBroker, why_not

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 8
START_S = 120.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class WorldError(Exception):
    """The run cannot be done here; the message says why."""


@contextmanager
def broker(directory: Path) -> Iterator[KafkaBroker]:
    """Run a broker with a log of its own."""
    reason = why_not()
    if reason is not None:
        raise WorldError(reason)
    directory.mkdir(parents=True)
    running = KafkaBroker(directory)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def settings_for(bootstrap_servers: str, data_dir: Path) -> Settings:
    """Return the worker's settings: all defaults but where things are; makes the topics."""
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers, partitions=PARTITIONS)
    create_topics(kafka, connect(kafka))
    return Settings(kafka=kafka, clickhouse=ClickHouseSettings(data_dir=data_dir))


class WorkerProcess:
    """`trainfare worker --data DIR`, as a user starts it."""

    def __init__(self, settings: Settings, environment: Mapping[str, str], log: Path) -> None:
        self._data_dir = settings.clickhouse.data_dir or Path()
        self._log = log
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streams.cli.main", "worker", "--data", str(self._data_dir)],
            cwd=ROOT,
            env={
                **inherited,
                "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
                "TRAINFARE_KAFKA_PARTITIONS": str(settings.kafka.partitions),
                "TRAINFARE_WEB_PORT": "0",
                **environment,
            },
            stdout=subprocess.DEVNULL,
            stderr=log.open("ab"),
        )
        self.url = self._ready()

    def _ready(self) -> str:
        """Wait until the worker says that it meters; returns its API's address."""
        pool = urllib3.PoolManager(timeout=2.0, retries=False)
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            if self._process.poll() is not None:
                break
            found = endpoint.read(self._data_dir)
            if found is not None and pool.request("GET", f"{found.url}/readyz").status == 200:
                return found.url
            time.sleep(0.2)
        self.stop()
        raise WorldError(f"the worker was not ready after {START_S:g} s:\n{self._log.read_text()[-3000:]}")

    def cpu_s(self) -> float:
        """Return the seconds of a core that all threads of the process have used."""
        fields = (
            Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_mib(self) -> float:
        """Return the memory that the process holds."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> int:
        """Stop in order, by force if it takes too long; returns the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(10)


class Api:
    """The worker's SQL, over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1/query"
        self._pool = urllib3.PoolManager(timeout=30.0, retries=False, maxsize=1)

    def names(self, sql: str, **parameters: object) -> list[str]:
        """Return the first column of an answer."""
        body = orjson.dumps({"sql": sql, "parameters": parameters})
        answer = self._pool.request(
            "POST", self._url, body=body, headers={"Content-Type": "application/json"}
        )
        if answer.status != 200:
            raise WorldError(f"the worker answers {answer.status}: {answer.data[:500]!r}")
        return [str(row[0]) for row in orjson.loads(answer.data)["rows"]]


def machine() -> dict[str, object]:
    """Return what the figures depend on besides our code."""
    return {
        "cpu": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_mib": int((_first("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "kafka": VERSION,
        **{
            name: version(name)
            for name in ("chdb", "faust-streaming", "aiokafka", "confluent-kafka", "numba")
        },
    }


def _first(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
