"""From the tokens of settings to issued ones, with a sender that never stops: nothing is refused on the way, and every event arrives once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError

import pytest

from tests.cli.command import trainfare
from tests.kafka.broker import _free_ports
from tests.serve.run import Serves
from tests.serve.running import Running

pytestmark = pytest.mark.long

ADMIN: Final = "the-token-of-settings-with-all-scopes"
WRITER: Final = "the-write-token-of-settings"
_PATIENCE_S: Final = 120.0


class Sender(threading.Thread):
    """Sends one event after another, each until it is accepted, by the token that it has been given last."""

    def __init__(self, running: Running, token: str) -> None:
        super().__init__(daemon=True)
        self.running, self.token, self.answers = running, token, list[tuple[str, int, Any]]()
        self.is_over = threading.Event()
        self.accepted: dict[str, int] = {}

    def run(self) -> None:
        number = 0
        while not self.is_over.wait(0.1):
            token = self.token
            value = {
                "source": "sdk", "id": f"e{number}", "time_ms": time.time_ns() // 1_000_000, "type": "heartbeat" if number else "started",
                "job_id": "v1", "attempt": 1, "team": "vision", "gpu_count": 1, "gpu_type": "H100",
            }  # fmt: skip
            if number:
                value = {
                    name: value[name] for name in ("source", "id", "time_ms", "type", "job_id", "attempt")
                }
            try:
                status, found = self.running.ask(
                    "POST", "/api/v1/events", token, [{"topic": "jobs", "value": value}]
                )
            except (URLError, ConnectionError, TimeoutError):
                continue  # the worker starts anew: the same event again
            self.answers.append((token, status, found))
            if status == 202:
                self.accepted[token] = self.accepted.get(token, 0) + 1
                number += 1

    def until_accepted(self, token: str) -> None:
        """Wait for five more events of a token."""
        wanted, deadline_s = self.accepted.get(token, 0) + 5, time.monotonic() + _PATIENCE_S
        while self.accepted.get(token, 0) < wanted:
            assert time.monotonic() < deadline_s, self.answers[-3:]
            time.sleep(0.1)


def test_nothing_is_refused_between_the_tokens_of_settings_and_issued_ones(tmp_path: Path) -> None:
    (port,) = _free_ports(1)
    running = Running(port, tmp_path / "data")
    common = {"TRAINFARE_WEB_PORT": str(port), "TRAINFARE_KAFKA_PARTITIONS": "1"}
    shared = {"TRAINFARE_WEB_TOKEN": ADMIN, "TRAINFARE_WEB_WRITE_TOKEN": WRITER}
    where = ("--url", f"http://127.0.0.1:{port}")

    def command(token: str, *words: str) -> str:
        done = trainfare(*words, *where, env={"TRAINFARE_WEB_TOKEN": token})
        assert done.code == 0, done.err
        return done.out.strip()

    with Serves(tmp_path, {**common, **shared}) as serves:
        life = serves.start()
        life.wait_ready()
        sender = Sender(running, WRITER)
        sender.start()
        sender.until_accepted(WRITER)
        root = command(ADMIN, "tokens", "create", "root", "--scope", "admin")
        jobs = command(ADMIN, "tokens", "create", "vision-jobs", "--scope", "ingest", "--team", "vision", "--source", "sdk")  # fmt: skip
        running.until(200, "GET", "/api/v1/whoami", jobs)
        sender.until_accepted(WRITER)  # both are in force
        sender.token = jobs
        sender.until_accepted(jobs)
        listed = command(root, "tokens", "list")
        assert "vision-jobs" in listed
        assert life.terminate() == 0
    with Serves(tmp_path, {**common, "TRAINFARE_WEB_REQUIRE_TOKEN": "true"}) as serves:
        life = serves.start()
        life.wait_ready()
        sender.until_accepted(jobs)
        for former in (ADMIN, WRITER):
            assert running.ask("GET", "/api/v1/whoami", former)[0] == 401
        sender.is_over.set()
        sender.join(60)
        # 503: the worker has just started, and has not read yet which tokens there are.
        assert {status for _, status, _ in sender.answers} <= {202, 503}
        assert not [found for _, status, found in sender.answers if status == 202 and found["refused"]]
        command(root, "tokens", "revoke", "vision-jobs", "--comment", "end of the test")
        running.until(401, "GET", "/api/v1/whoami", jobs)
        assert life.terminate() == 0
