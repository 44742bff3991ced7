"""docs/access_matrix.md on a running worker: a real token of each scope asks for each cell of each table."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any, Final

import pytest

from streams.web.matrix_page import ABOUT, BOUNDED, NO, OPEN_TO_ALL, WITHIN, YES, page
from streams.web.scopes import Scope
from tests.docs.sections import DOCS, rows, section
from tests.serve.running import Running

PAGE: Final = (DOCS / "access_matrix.md").read_text()
_REFUSALS: Final = ("forbidden", "beyond_token")
_UNTIL_MS: Final = time.time_ns() // 1_000_000 + 3_600_000


@pytest.fixture(scope="module")
def tokens(running: Running) -> dict[str, str]:
    """A token of each scope, and of those that can be bound one of a team."""
    found = {str(scope): running.issue(scope, "--scope", scope) for scope in Scope}
    for scope in BOUNDED:
        words = ("--team", "vision", *(("--source", "sdk") if scope is Scope.INGEST else ()))
        found[f"bound {scope}"] = running.issue(f"bound-{scope}", "--scope", scope, *words)
    return found


def is_let_in(running: Running, method: str, path: str, token: str, body: object = None) -> bool:
    """Whether a request gets past the guards: what it is then answered, be it a fault of its body, does not matter."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request(
            method,
            path,
            json.dumps({} if body is None else body).encode() if method == "POST" else None,
            headers,
        )
        answer = connection.getresponse()
        if answer.status in (401, 403):
            return json.loads(answer.read())["error"]["code"] not in (*_REFUSALS, "unauthorized")
        assert answer.status not in (429, 500), answer.read()
        return True
    finally:
        connection.close()


def test_the_page_is_made_of_the_paths_that_are_served() -> None:
    assert page() == PAGE, "run `make docs`"


def test_each_scope_at_each_path(running: Running, tokens: dict[str, str]) -> None:
    told = rows(section(PAGE, "Paths"))
    assert len(told) > 60
    wrong = []
    for named, *cells in told:
        method, path = named.strip("`").replace("{", "").replace("}", "").split(" ")
        expected = dict(zip(map(str, Scope), cells, strict=False))
        body = control("source", None) if path == "/api/v1/sources" else None
        if path in ("/api/v1/controls",):
            continue  # by kind, below
        for scope, cell in expected.items():
            if is_let_in(running, method, path, tokens[scope], body) != (cell in (YES, OPEN_TO_ALL)):
                wrong.append((named, scope, cell))
        for bound in BOUNDED:
            cell = cells[-1]
            wanted = cell == OPEN_TO_ALL or (
                cell == WITHIN and expected[bound] == YES and path != "/api/v1/sources"
            )
            if is_let_in(running, method, path, tokens[f"bound {bound}"], body) != wanted:
                wrong.append((named, f"bound {bound}", cell))
    assert wrong == []


def control(kind: str, team: str | None) -> dict[str, Any]:
    """A control of a kind about a team, or about what names none."""
    of: dict[str, Any] = {"team": team} if team else {}
    until = {"until_ms": _UNTIL_MS}
    fields: dict[str, dict[str, Any]] = {
        "ack": {"alert_id": "al_8fe63f15d88e32e0d55fbafd", **until},
        "silence": {**(of or {"rule": "burn_fast"}), **until},
        "planned": {**(of or {"project": "p"}), "usd_per_hour": "5", **until},
        "receipt": {"owner": "ada", "on": True, **of},
        "budget": {"name": f"of {team}", **(of or {"project": "p"}), "usd": "5", "per": "month"},
        "override": {"budget": f"of {team}", "reason": "deadline", "name": f"over {team}", **until},
        "actions": {"mode": "live"},
        "source": {"name": "slurm", "polls": 1, "entries": {"metered": 1}, "standing": []},
    }
    return {**fields[kind], "kind": kind}


def test_each_scope_with_each_kind_of_control(running: Running, tokens: dict[str, str]) -> None:
    told = rows(section(PAGE, "Kinds of controls"))
    cells = {
        (kind.strip("`"), str(scope)): cell
        for kind, *each in told
        for scope, cell in zip(Scope, each, strict=True)
    }
    assert {cells[kind, "ingest"] for kind, *_ in ((row[0].strip("`"),) for row in told)} == {NO}
    found = {
        (kind, scope): YES
        if is_let_in(running, "POST", "/api/v1/controls", tokens[scope], control(kind, "vision"))
        else NO
        for kind, scope in cells
    }
    assert found == cells


def test_a_token_of_a_team_with_each_kind_of_control(running: Running, tokens: dict[str, str]) -> None:
    for team in ("vision", "speech"):
        assert is_let_in(running, "POST", "/api/v1/controls", tokens["limit"], control("budget", team))
    # An override is about the team of its budget, which the worker reads back.
    time.sleep(3)
    wrong = []
    for named, *cells in rows(section(PAGE, "Controls of a token bound to a team")):
        kind = named.strip("`")
        if kind == "ack":
            continue  # needs an alert of each: tests/web/test_token_bounds.py
        scope = "limit" if kind in ("budget", "override", "source", "actions") else "act"
        for about, cell in zip(ABOUT, cells, strict=True):
            body = control(kind, {"own team": "vision", "another team": "speech", "no team": None}[about])
            found = is_let_in(running, "POST", "/api/v1/controls", tokens[f"bound {scope}"], body)
            if found != (cell == YES):
                wrong.append((kind, about, cell))
    assert wrong == []
