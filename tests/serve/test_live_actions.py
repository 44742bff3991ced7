"""On a running worker, that actions of budgets are sent waits for a second identity, and one takes it back."""

from __future__ import annotations

import time
from typing import Any

from schemas.events import ControlEvent
from schemas.validate_requests import ACTIONS_KEY, are_actions_confirmed
from tests.serve.running import Running
from tests.serve.test_second_person import waits

LIVE: dict[str, Any] = {"kind": "actions", "mode": "live", "comment": "since the dry run was right"}


def test_it_waits_for_another_person_and_one_takes_it_back(running: Running) -> None:
    ada = running.issue("ada", "--scope", "limit")
    bob = running.issue("bob", "--scope", "limit,admin")
    lead = running.issue("lead", "--scope", "limit", "--team", "vision")
    acts = running.issue("acts", "--scope", "act")
    for token, code in ((lead, "beyond_token"), (acts, "forbidden")):
        status, found = running.ask("POST", "/api/v1/controls", token, LIVE)
        assert (status, found["error"]["code"]) == (403, code)
    for wrong in ({"mode": "on"}, {"mode": "live", "team": "x"}, {"mode": "live", "comment": 1}):
        time.sleep(1.1)  # more than one record a second is refused
        assert running.ask("POST", "/api/v1/controls", ada, {"kind": "actions", **wrong})[0] == 400
    time.sleep(1.1)
    status, asked = running.ask("POST", "/api/v1/controls", ada, LIVE)
    assert (status, asked["kind"], asked["name"]) == (202, "request", "actions")
    assert "another person confirms" in asked["second_person"]
    waits(running, bob, "actions")
    for token, refusal in ((ada, (403, "not_second")), (lead, (404, "no_such_request"))):
        time.sleep(1.1)
        status, found = running.ask("POST", "/api/v1/approvals", token, {"id": "actions"})
        assert (status, found["error"]["code"]) == refusal
    time.sleep(1.1)
    status, found = running.ask("POST", "/api/v1/approvals", bob, {"id": "actions"})
    assert (status, found["by"]) == (202, "token/ada, confirmed by token/bob")
    time.sleep(1.1)
    assert running.ask("POST", "/api/v1/controls", ada, {"kind": "actions", "mode": "dry_run"})[0] == 202
    trail: list[dict[str, Any]] = []
    while len(trail) < 3:
        trail = running.until(200, "GET", "/api/v1/changes?kind=request&name=actions", bob)["changes"]
    assert [each["comment"] for each in trail] == ["", LIVE["comment"], LIVE["comment"]]
    assert '"confirmed_by":"token/bob"' in trail[1]["after"]
    assert '"mode":"dry_run"' in trail[0]["after"]


def test_only_what_is_confirmed_and_live_counts() -> None:
    def record(mode: str, **more: object) -> dict[bytes, ControlEvent]:
        value = {"control": {"kind": "actions", "mode": mode}, "by": "token/ada", "until_ms": 1, **more}
        return {ACTIONS_KEY: ControlEvent("t", "i", 1, "request", "actions", value)}

    assert not are_actions_confirmed({})
    assert not are_actions_confirmed(record("live"))
    assert not are_actions_confirmed(record("dry_run", confirmed_by="token/ada"))
    assert are_actions_confirmed(record("live", confirmed_by="token/bob"))
    other = record("live", confirmed_by="token/bob")[ACTIONS_KEY]
    assert not are_actions_confirmed({b"request/other": other})
