"""The attack on the doors of `serve`: each limit fires by itself, and a small attack is held by the real thing."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtest import abuse, abuse_doors
from loadtest.abuse_crew import Crew, Plan
from loadtest.abuse_doors import verdicts
from loadtest.abuse_judge import Spread
from loadtest.abuse_silent import Silent
from loadtest.abuse_wire import HOST, Target

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="options of sockets")
FINE = Spread(100, 99, 5.0, 900.0, 1_000.0)


@pytest.fixture
def port() -> Iterator[socket.socket]:
    """A port where connections are taken, and nobody answers."""
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(60)
        yield server


def figures(**changed: Any) -> dict[str, Any]:
    return {
        "alive": True, "senders": {"hook": FINE, "events": FINE}, "published": [0, 0], "stop_code": 0, **changed,
    }  # fmt: skip


def failed(found: dict[str, Any]) -> list[str]:
    return [each.name for each in verdicts(found) if not each.ok]


def test_a_run_within_its_limits_has_no_failure() -> None:
    assert failed(figures()) == []


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"alive": False}, "serve lives"),
        ({"senders": {"hook": FINE._replace(right=98)}}, "hook: 202 within 2 s"),
        ({"senders": {"events": Spread(0, 0, None, None, None)}}, "events: 202 within 2 s"),
        ({"published": [0, 1]}, "publish"),
        ({"published": []}, "publish"),
        ({"stop_code": 1}, "serve ends at SIGTERM"),
    ],
)
def test_each_limit_fires_by_itself(changed: dict[str, Any], name: str) -> None:
    assert failed(figures(**changed)) == [name]


def test_each_attacker_announces_what_it_does_not_send(port: socket.socket) -> None:
    number = port.getsockname()[1]
    plan = Plan(Target(number, "the-token", 0), silent=Silent(hooks=3, events=2, log=1, log_port=number))
    crew = Crew("doors", plan)
    try:
        lines = [port.accept()[0] for _ in range(6)]
        heads: dict[socket.socket, str] = {}
        deadline_s = time.monotonic() + 20
        while len(heads) < 5 and time.monotonic() < deadline_s:
            for line in select.select([line for line in lines if line not in heads], [], [], 1)[0]:
                heads[line] = line.recv(65_536).decode()
        crew.end()
    finally:
        crew.kill()
    for line in lines:
        line.close()
    said = list(heads.values())
    assert len(said) == 5, "the one at the log says nothing"
    assert sum("POST /api/v1/hooks/github " in head for head in said) == 3
    assert sum("Authorization: Bearer the-token" in head for head in said) == 1
    assert sum("Transfer-Encoding: chunked" in head for head in said) == 1
    assert all(head.rpartition("\r\n\r\n")[2].strip() == "" for head in said)


def test_the_doors_are_a_part_of_the_abuse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[list[str]] = []

    def main(words: list[str]) -> int:
        given.append(words)
        return 7

    monkeypatch.setattr(abuse_doors, "main", main)
    assert abuse.main(["--doors", "--json", str(tmp_path / "x")]) == 7
    assert given == [["--json", str(tmp_path / "x")]]


@pytest.mark.kafka
def test_a_small_attack_is_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "doors.json"
    abuse_doors.main(["--seconds", "5", "--silent", "80", "--stopping", "4", "--json", str(out)])
    assert out.exists(), capsys.readouterr().err
    found = json.loads(out.read_text())
    assert found["alive"]
    assert found["published"] == [0] * len(found["published"]) != []
    assert found["stop_code"] == 0
    for what in ("hook", "events"):
        assert found["outcomes"][what].get("202", 0) > 0
        assert not {"503", "429", "401"} & set(found["outcomes"][what])
    assert found["attackers_met"]["silent at the log"]["closed"] > 0
