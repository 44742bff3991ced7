"""Clients in a process of their own: the plan goes in by stdin, what they met comes out at the end, a fault is told."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.abuse_crew import Crew, Plan
from loadtest.abuse_wire import HOST, Target
from loadtest.latency_world import WorldError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="whole loopback net")
TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture
def full() -> Iterator[socket.socket]:
    """A port where connections are taken, and nobody answers."""
    with socket.create_server((HOST, 0)) as server:
        yield server


def target_of(server: socket.socket) -> Target:
    return Target(server.getsockname()[1], TOKEN, 2)


def test_a_crew_attacks_until_it_is_told_and_its_token_is_in_no_argument(full: socket.socket) -> None:
    crew = Crew("idle", Plan(target_of(full), idle=2, slow=1, deaf=1, bombers=1, guessers=1))
    try:
        peers = {full.accept()[1][0] for _ in range(6)}
        words = Path(f"/proc/{crew.pid}/cmdline").read_bytes()
        assert TOKEN.encode() not in words
        found = crew.end()
    finally:
        crew.kill()
    assert peers == {"127.1.0.1", "127.1.0.2"}
    assert found["cpu_s"] > 0
    assert found["seen"] == []


def test_honest_clients_are_of_one_address_and_say_what_was_not_answered(full: socket.socket) -> None:
    crew = Crew("honest", Plan(target_of(full), honest=True))
    try:
        lines = [full.accept() for _ in range(6)]
        found = crew.end()
    finally:
        crew.kill()
    assert {peer[0] for _, peer in lines} == {HOST}
    assert {(what, outcome) for what, _, _, outcome in found["seen"]} >= {
        ("healthz", "unanswered"), ("jobs", "unanswered"), ("sql", "unanswered"),
    }  # fmt: skip
    for line, _ in lines:
        line.close()


def test_a_crew_that_ends_by_itself_is_a_fault(full: socket.socket) -> None:
    crew = Crew("idle", Plan(target_of(full), idle=1))
    crew.kill()
    with pytest.raises(WorldError, match="the clients `idle` ended with -9"):
        crew.end()
