"""On a running worker, a fleet-wide silence and a budget that stops jobs have no effect until a second identity confirms."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from streams.web.second_person import why_two
from tests.cli.command import trainfare
from tests.serve.running import Running
from tests.serve.test_tokens import silence

_PATIENCE_S = 60.0
STOP: dict[str, Any] = {"kind": "budget", "name": "cap", "team": "vision", "usd": "5", "per": "month", "actions": ["notify", {"do": "stop", "at": 1.2}]}  # fmt: skip


@pytest.fixture(scope="module")
def ada(running: Running) -> str:
    return running.issue("ada", "--scope", "act,limit")


@pytest.fixture(scope="module")
def bob(running: Running) -> str:
    return running.issue("bob", "--scope", "act,limit")


def in_trail(running: Running, kind: str, by: str) -> list[dict[str, Any]]:
    done = trainfare("audit", "changes", "--data", running.data, "--format", "json")
    assert done.code == 0, done.err
    return [each for each in json.loads(done.out) if each["kind"] == kind and each["by"] == by]


def waits(running: Running, token: str, request_id: str) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while request_id not in json.dumps(running.ask("GET", "/api/v1/approvals", token)[1]):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


@pytest.mark.parametrize("kind", ["silence", "budget"])
def test_it_has_no_effect_until_another_person_confirms(
    running: Running, ada: str, bob: str, kind: str
) -> None:
    record = STOP if kind == "budget" else silence(rule="burn_fast")  # now: its end is soon
    time.sleep(1.1)  # more than one record a second is refused
    status, asked = running.ask("POST", "/api/v1/controls", ada, record)
    assert (status, asked.get("kind")) == (202, "request"), asked
    assert "until another person confirms" in asked["second_person"]
    waits(running, bob, asked["name"])
    assert in_trail(running, record["kind"], "token/ada") == []
    admin = (running.data / "token").read_text().strip()
    vision = running.issue(f"vision-{record['kind']}", "--scope", "act,limit", "--team", "speech")
    for token, refusal in (
        (ada, (403, "not_second")),
        (admin, (403, "not_second")),
        (vision, (404, "no_such_request")),
    ):
        status, found = running.ask("POST", "/api/v1/approvals", token, {"id": asked["name"]})
        assert (status, found["error"]["code"]) == refusal, found
    done = trainfare(
        "approve",
        asked["name"],
        "--url",
        f"http://127.0.0.1:{running.port}",
        env={"TRAINFARE_WEB_TOKEN": bob},
    )
    assert done.code == 0, done.err
    both = "token/ada, confirmed by token/bob"
    assert both in done.out
    deadline_s = time.monotonic() + _PATIENCE_S
    while not in_trail(running, record["kind"], both):
        assert time.monotonic() < deadline_s
        time.sleep(1)
    deadline_s = time.monotonic() + _PATIENCE_S
    while running.ask("POST", "/api/v1/approvals", bob, {"id": asked["name"]})[0] != 404:
        assert time.monotonic() < deadline_s
        time.sleep(1.1)


def test_a_shared_token_is_for_one_person_and_says_so(running: Running) -> None:
    time.sleep(1.1)  # more than one record a second is refused
    admin = (running.data / "token").read_text().strip()
    status, found = running.ask("POST", "/api/v1/controls", admin, silence(rule="stalled"))
    assert (status, found["kind"]) == (202, "silence")
    assert "shared" in found["second_person"]


def test_one_of_another_scope_confirms_nothing(running: Running, ada: str) -> None:
    time.sleep(1.1)  # more than one record a second is refused
    asked = running.ask("POST", "/api/v1/controls", ada, silence(rule="traffic"))[1]
    waits(running, ada, asked["name"])
    limits = running.issue("limits", "--scope", "limit")
    assert running.ask("POST", "/api/v1/approvals", limits, {"id": asked["name"]})[0] == 403


@pytest.mark.parametrize(
    ("record", "needs_two"),
    [
        ({"kind": "silence", "rule": "burn_fast"}, True),
        ({"kind": "silence", "project": "p"}, True),
        ({"kind": "silence", "team": ""}, True),
        ({"kind": "silence", "match": {"severity": "page"}}, True),
        ({"kind": "silence", "team": "vision"}, False),
        ({"kind": "silence", "match": {"job_id": "j"}}, False),
        ({"kind": "budget", "actions": ["notify"]}, False),
        ({"kind": "budget", "action": "suspend"}, True),
        ({"kind": "budget", "actions": "stop"}, True),
        ({"kind": "budget", "actions": ["notify", {"do": "stop", "at": 1.1}]}, True),
        ({"kind": "planned", "project": "p", "usd_per_hour": "9"}, True),
        ({"kind": "planned", "team": "vision", "usd_per_hour": "9"}, False),
        ({"kind": "silence", "team": "vision", "match": {"team": None}}, True),
        ({"kind": "override", "budget": "b"}, False),
    ],
)
def test_what_hurts_needs_two(record: dict[str, Any], needs_two: bool) -> None:
    assert bool(why_two(record)) == needs_two
