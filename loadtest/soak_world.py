"""What a soak stands on: a broker, a store, workers, each a process of its own that can be hurt and looked at."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from streams.config.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
MIB = 2**20
_ANSWER_S = 5.0
_STOP_S = 45.0
_LATE_S = 600  # the default of meter.late_horizon_ms
_LAG = "trainfare_lag_seconds"
_CANARY = "trainfare_canary_"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Look:
    """What a worker said of itself; None where it did not answer, or has nothing to say of it."""

    rss_mib: float | None = None
    ready: bool | None = None
    audit_ok: bool | None = None
    findings: tuple[str, ...] = ()  # that are not as they should be
    canary: Mapping[str, float] = field(default_factory=dict)
    backlog_mib: float | None = None


class Member:
    """One place in the group: a worker process, or the one after it."""

    def __init__(
        self,
        name: str,
        env: Mapping[str, str],
        directory: Path,
        arguments: tuple[str, ...],
        program: tuple[str, ...] = ("streams.cli.main",),
        command: str = "worker",
    ) -> None:
        self.name = name
        self.life = 0
        self.ends: list[str] = []  # of lives that nobody ended
        self._arguments = arguments
        self._command = command
        self._program = program  # a module and its own arguments; `trainfare` as users have it
        self._log = directory / f"{name}.log"
        self._port = free_port()
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TRAINFARE_")}
        self._env = {**inherited, **env, "TRAINFARE_WEB_PORT": str(self._port), "PYTHONPATH": str(ROOT)}
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = True  # by us

    def start(self) -> None:
        """A new life."""
        self.life += 1
        self._ended = False
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._program, self._command, *self._arguments],
                cwd=ROOT,
                env=self._env,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of its process, which was started."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def keep_alive(self) -> None:
        """Start it again if it ended by itself, as an orchestrator would; that is noted."""
        if not self.alive and not self._ended and self._process is not None:
            self.ends.append(f"{self.name}, life {self.life}, ended with {self._process.returncode}")
            self.start()

    def signal(self, number: signal.Signals) -> None:
        """Signal it, if it lives."""
        if self._process is not None and self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self._ended = True
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def stop(self) -> int:
        """End it in order, by force if that takes too long; returns its exit code."""
        if self._process is None:
            return 0
        self._ended = True
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -int(signal.SIGKILL)

    def said(self) -> str:
        """The end of its log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def rss_mib(self) -> float | None:
        """The memory that it holds."""
        if self._process is None or not self.alive:
            return None
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB

    @property
    def url(self) -> str:
        """Its API."""
        return f"http://127.0.0.1:{self._port}"

    def cpu_s(self) -> float:
        """The seconds of a core that all its threads have used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def lag_s(self) -> float:
        """The age of the oldest record that it has not metered, as it says itself; 0 if it does not answer."""
        found = _samples(self._get("/metrics"))
        return max((sample.value for sample in found if sample.name == _LAG), default=0.0)

    def look(self) -> Look:
        """Ask it everything."""
        rss_mib = self.rss_mib()
        if rss_mib is None:
            return Look()
        ready = self._get("/readyz")
        audit = _verdict(self._get("/api/v1/audit"))
        found = _figures(self._get("/metrics"))
        backlog = found.get("trainfare_backlog_bytes")
        return Look(
            rss_mib,
            None if ready is None else ready[0] == 200,
            None if audit is None else not audit,
            audit or (),
            {name: value for name, value in found.items() if name.startswith(_CANARY)},
            None if backlog is None else backlog / MIB,
        )

    def _get(self, path: str) -> tuple[int, bytes] | None:
        try:
            with urlopen(f"{self.url}{path}", timeout=_ANSWER_S) as answer:  # noqa: S310 - the http address of our worker
                return int(answer.status), answer.read()
        except HTTPError as fault:
            return fault.code, b""
        except OSError:
            return None


def _verdict(answer: tuple[int, bytes] | None) -> tuple[str, ...] | None:
    """What is not in order, () if all is; None without an audit."""
    if answer is None or answer[0] != 200:
        return None
    try:
        body = json.loads(answer[1])
        wrong = tuple(
            " ".join(str(each.get(name, "")) for name in ("check", "subject", "expected", "found", "detail"))
            for each in body.get("findings") or ()
            if not each.get("ok")
        )
        ok = body["ok"]
    except (ValueError, KeyError, AttributeError):
        return None
    if ok is None:
        return None
    return () if ok else wrong or ("not ok, and no finding says why",)


def _figures(answer: tuple[int, bytes] | None) -> dict[str, float]:
    """Metrics without labels."""
    return {sample.name: sample.value for sample in _samples(answer) if not sample.labels}


def _samples(answer: tuple[int, bytes] | None) -> list[Sample]:
    """All samples of a page of metrics; none if there is no page, or it is broken."""
    if answer is None or answer[0] != 200:
        return []
    try:
        families = list(text_string_to_metric_families(answer[1].decode()))
    except ValueError:
        return []
    return [sample for family in families for sample in family.samples]


def environment(settings: Settings, store_url: str | None, horizon_s: int) -> dict[str, str]:
    """The settings that all workers share; the canary, where this version has one."""
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_PARTITIONS": str(settings.kafka.partitions),
        "TRAINFARE_METER_JOB_HORIZON_MS": str(horizon_s * 1000),
        "TRAINFARE_METER_DEDUPE_HORIZON_MS": str(horizon_s * 1000),
        "TRAINFARE_METER_LATE_HORIZON_MS": str(min(horizon_s, _LATE_S) * 1000),
    }
    if store_url is not None:
        env["TRAINFARE_CLICKHOUSE_URL"] = store_url
    if "canary" in Settings.model_fields:
        env["TRAINFARE_CANARY_ENABLED"] = "true"
        env["TRAINFARE_CANARY_KEY"] = "the-key-of-all-workers-of-this-soak"
    return env
