"""A running meter sends those who may confirm a message of what waits, and the link in it confirms as whom it is made for."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.cli.command import trainfare
from tests.kafka.broker import _free_ports
from tests.serve.run import Serves
from tests.serve.running import Running
from tests.serve.test_gameday import SECRET, kafka_of, receiving
from tests.serve.test_second_person import in_trail
from tests.serve.test_tokens import silence
from tests.web.approvals import KEY

_PATIENCE_S = 90.0


def test_a_message_has_a_link_that_confirms(tmp_path: Path) -> None:
    (port,) = _free_ports(1)
    data = tmp_path / "data"
    with receiving() as inbox:
        env = {
            "TRAINFARE_WEB_PORT": str(port),
            "TRAINFARE_WEB_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "TRAINFARE_WEB_ACT_LINK_KEY": KEY,
            "TRAINFARE_KAFKA_PARTITIONS": "1",
            "TRAINFARE_ALERTS_ALLOW_HOSTS": f"127.0.0.1:{inbox.port}",
            "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
            "TRAINFARE_SECOND_PERSON_CONFIRMERS": "grace=token/grace",
        }
        with Serves(tmp_path, env) as serves:
            life = serves.start()
            life.wait_ready()
            running = Running(port, data)
            owner = {"id": "1", "source": "platform", "time_ms": time.time_ns() // 1_000_000, "kind": "owner", "name": "grace", "webhook": f"http://127.0.0.1:{inbox.port}/me"}  # fmt: skip
            path = tmp_path / "owners.jsonl"
            path.write_text(json.dumps({"topic": "controls", "value": owner}) + "\n")
            assert trainfare("publish", path, env=kafka_of(data)).code == 0
            ada = running.issue("ada", "--scope", "act")
            running.issue("grace", "--scope", "act")
            asked = running.ask("POST", "/api/v1/controls", ada, silence(rule="burn_fast"))[1]
            assert asked["kind"] == "request", asked
            told = _told(inbox.bodies)
            assert (told["request_id"], told["by"]) == (asked["name"], "token/ada")
            link = told["links"]["confirm"].partition("#confirm=")[2]
            assert running.ask("POST", "/api/v1/act", "", {"link": link[:-1], "act": "confirm"})[0] == 401
            status, done = running.ask("POST", "/api/v1/act", "", {"link": link, "act": "confirm"})
            both = "token/ada, confirmed by token/grace"
            assert (status, done["by"]) == (202, both), done
            deadline_s = time.monotonic() + _PATIENCE_S
            while not (rows := in_trail(running, "silence", both)):
                assert time.monotonic() < deadline_s
                time.sleep(0.5)
            assert rows[0]["proof"] == "signed link"
            deliveries = trainfare(
                "sql", "SELECT alert_id, outcome FROM deliveries", "--data", data, "--format", "json"
            )
            assert told["receipt_id"] in deliveries.out, deliveries
            assert life.terminate() == 0


def _told(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """The first message about a request."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        for message in list(bodies):
            if message["type"] == "request.waiting":
                found: dict[str, Any] = message["data"]
                return found
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
