"""People whom a proxy has signed in, on a running worker: identities for a second person and in the audit trail, within their teams."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.kafka.broker import _free_ports
from tests.serve.run import Serves
from tests.serve.running import Running
from tests.serve.test_second_person import STOP, in_trail, waits
from tests.serve.test_tokens import silence

SECRET: Final = "what-the-proxy-shows-with-each-request"
ROLES: Final = """
[[roles]]
group = "all"
role = "viewer"
teams = "all"

[[roles]]
group = "on-call"
role = "operator"

[[roles]]
group = "finops"
role = "finance"

[[roles]]
group = "vision"
role = "operator"
teams = ["vision"]
"""
_PATIENCE_S: Final = 60.0


class Behind(NamedTuple):
    """A meter behind a proxy."""

    running: Running

    def ask(self, who: str, groups: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """What somebody whom the proxy has signed in is answered."""
        headers = {
            "X-Trainfare-Proxy-Secret": SECRET,
            "X-Forwarded-Email": f"{who}@example.com",
            "X-Forwarded-Groups": groups,
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        asked = Request(f"http://127.0.0.1:{self.running.port}{path}", data, headers, method=method)
        try:
            with urlopen(asked, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def control(self, who: str, groups: str, record: dict[str, Any]) -> tuple[int, Any]:
        time.sleep(1.1)  # more than one record a second is refused
        return self.ask(who, groups, "POST", "/api/v1/controls", record)

    def confirm(self, who: str, groups: str, request_id: str) -> tuple[int, Any]:
        time.sleep(1.1)
        return self.ask(who, groups, "POST", "/api/v1/approvals", {"id": request_id})


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    (port,) = _free_ports(1)
    folder = Path(tmp_path_factory.mktemp("people"))
    (folder / "roles.toml").write_text(ROLES)
    env = {
        "TRAINFARE_WEB_PORT": str(port),
        "TRAINFARE_KAFKA_PARTITIONS": "1",
        "TRAINFARE_SIGN_IN_PROXY_SECRET": SECRET,
        "TRAINFARE_SIGN_IN_ROLES_FILE": str(folder / "roles.toml"),
    }
    with Serves(folder, env) as serves:
        life = serves.start()
        life.wait_ready()
        yield Behind(Running(port, folder / "data"))
        assert life.terminate() == 0


def trail(behind: Behind, kind: str, by: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not (found := in_trail(behind.running, kind, by)):
        assert time.monotonic() < deadline_s
        time.sleep(1)
    return found[0]


def test_two_people_are_two_persons(behind: Behind) -> None:
    status, asked = behind.control("ada", "on-call", silence(rule="burn_fast"))
    assert (status, asked["kind"], asked["by"]) == (202, "request", "person/ada@example.com")
    token = behind.running.issue("watch", "--scope", "act")
    waits(behind.running, token, asked["name"])
    status, found = behind.confirm("ada", "on-call", asked["name"])
    assert (status, found["error"]["code"]) == (403, "not_second")
    status, found = behind.confirm("eve", "all", asked["name"])
    assert (status, found["error"]["code"]) == (403, "forbidden")
    for groups in ("vision", "vision,finops"):  # who may act for a team alone
        status, found = behind.confirm("eve", groups, asked["name"])
        assert (status, found["error"]["code"]) == (404, "no_such_request")
    assert behind.confirm("bob", "on-call", asked["name"])[0] == 202
    row = trail(behind, "silence", "person/ada@example.com, confirmed by person/bob@example.com")
    assert (row["proof"], row["from"]) == ("proxy", "127.0.0.1")


def test_a_token_and_a_person_are_two_persons(behind: Behind) -> None:
    token = behind.running.issue("budgets", "--scope", "limit")
    time.sleep(1.1)
    status, asked = behind.running.ask("POST", "/api/v1/controls", token, STOP)
    assert (status, asked["kind"]) == (202, "request")
    waits(behind.running, token, asked["name"])
    status, found = behind.confirm("ada", "on-call", asked["name"])  # may act, and set no limit
    assert (status, found["error"]["code"]) == (403, "forbidden")
    assert behind.confirm("bob", "finops", asked["name"])[0] == 202
    row = trail(behind, "budget", "token/budgets, confirmed by person/bob@example.com")
    assert row["proof"] == "proxy"


def test_a_person_of_a_team_acts_for_it_alone_and_sees_what_another_role_lets_them(behind: Behind) -> None:
    assert behind.control("tom", "vision", silence(team="vision"))[0] == 202
    assert trail(behind, "silence", "person/tom@example.com")["proof"] == "proxy"
    for record in (silence(team="speech"), silence(rule="burn_fast")):
        status, found = behind.control("tom", "vision,all", record)
        assert (status, found["error"]["code"]) == (403, "beyond_token"), found
    status, found = behind.ask("tom", "vision", "GET", "/api/v1/jobs")
    assert (status, found["partial"]) == (200, "team vision")
    status, found = behind.ask("tom", "vision,all", "GET", "/api/v1/jobs")
    assert status == 200
    assert "partial" not in found, "another role sees all"
    assert behind.ask("tom", "vision,all", "POST", "/api/v1/query", {"sql": "SELECT 1"})[0] == 200
    status, found = behind.ask("tom", "vision", "GET", "/api/v1/idle")
    assert (status, found["error"]["code"]) == (403, "beyond_role")
