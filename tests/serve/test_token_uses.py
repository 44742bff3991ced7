"""The last use of a token is still known after the meter was stopped and started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kafka.broker import _free_ports
from tests.serve.run import Serves
from tests.serve.running import Running


def shown(running: Running) -> dict[str, Any]:
    admin = (running.data / "token").read_text().strip()
    listed = running.until(200, "GET", "/api/v1/tokens", admin)
    assert listed["last_used_of"] == "all workers"
    (found,) = [each for each in listed["tokens"] if each["name"] == "jobs"]
    return {name: found[name] for name in ("last_used_ms", "last_used_from")}


def test_the_last_use_of_a_token_outlives_the_meter(tmp_path: Path) -> None:
    (port,) = _free_ports(1)
    running = Running(port, tmp_path / "data")
    env = {"TRAINFARE_WEB_PORT": str(port), "TRAINFARE_KAFKA_PARTITIONS": "1"}
    with Serves(tmp_path, env) as serves:
        life = serves.start()
        life.wait_ready()
        running.issue("jobs", "--scope", "ingest")
        before = shown(running)
        assert before["last_used_from"] == "127.0.0.1"
        assert life.terminate() == 0
        again = serves.start()
        again.wait_ready()
        assert shown(running) == before
        assert again.terminate() == 0
