"""Whoever may act and set limits for a team learns nothing of another one by what is refused: no name, limit or alert."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from streams.web import controls, token_bounds
from tests.web.approvals import Kept, asked
from tests.web.marked_store import MARKER, NUMBER, OTHER, OTHER_ALERT, OTHER_JOB, OWN, OWN_ALERT, token_of
from tests.web.serving import WALL_MS, Client, served
from tests.web.test_rows_by_team import marked
from tests.web.test_scopes import bearer

__all__ = ["marked"]

LEAD, RECORD = token_of("lead", "act", "limit", "read", teams=(OWN,))
UNTIL: Final = {"until_ms": WALL_MS + 1_000, "comment": "c"}


def standing_of(**fields: Any) -> ControlEvent:
    value = {"source": "t", "id": f"{MARKER}-id", "time_ms": WALL_MS - 1, "by": f"{MARKER}-by", **fields}
    event = decode("controls", json.dumps(value).encode(), (), WALL_MS)
    assert isinstance(event, ControlEvent), event
    return event


#: Of the other team, each with a name that one can guess.
STANDING: Final = {
    b"budget/theirs": standing_of(kind="budget", name="theirs", team=OTHER, owner=f"{MARKER}-owner", usd=str(NUMBER), per="month", comment=f"{MARKER}-c"),
    b"silence/quiet": standing_of(kind="silence", name="quiet", team=OTHER, until_ms=WALL_MS + 9_000),
    b"override/more": standing_of(kind="override", name="more", budget="theirs", until_ms=WALL_MS + 9_000),
}  # fmt: skip
#: What a lead of the own team may try, about what is the other one's.
TRIED: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "ack", "alert_id": OTHER_ALERT, **UNTIL},
    {"kind": "ack", "alert_id": OTHER_ALERT, "team": OWN, "job_id": OTHER_JOB, "usd_per_hour": "1", **UNTIL},
    {"kind": "budget", "name": "theirs", "replaces": {"usd": "1"}, "usd": "2"},
    {"kind": "budget", "name": "theirs", "replaces": {"usd": str(NUMBER)}, "usd": "2"},
    {"kind": "budget", "name": "theirs", "replaces": {"usd": "1", "gpu_hours": 1}, "usd": "2", "comment": "c"},
    {"kind": "budget", "name": "theirs", "team": OWN, "usd": "2", "per": "month", "comment": "c"},
    {"kind": "budget", "name": "theirs", "usd": "2", "per": "month"},
    {"kind": "override", "name": "x", "budget": "theirs", **UNTIL},
    {"kind": "override", "name": "more", "team": OWN, "budget": "theirs", **UNTIL},
    {"kind": "override", "name": "more", "team": OWN, **UNTIL},
    {"kind": "silence", "name": "quiet", "team": OWN, **UNTIL},
    {"kind": "silence", "match": {"job_id": OTHER_JOB}, **UNTIL},
    {"kind": "planned", "name": "quiet", "job_id": OTHER_JOB, "usd_per_hour": "1", **UNTIL},
    {"kind": "receipt", "owner": "o", "on": True},
    {"kind": "source", "name": "theirs", "polls": 1, "entries": {"metered": 1}, "standing": []},
    {"kind": "actions", "mode": "live"},
)  # fmt: skip


def answers(marked: ClickHouseStore) -> tuple[list[tuple[dict[str, Any], int, str]], Kept]:
    log, requests = Kept(), asked({"kind": "silence", "team": OTHER, **UNTIL}, f"token/{MARKER}")

    async def work(client: Client) -> list[tuple[dict[str, Any], int, str]]:
        found = []
        for body in TRIED:
            url = f"{client.server.url}/api/v1/controls"
            async with client.session.post(url, json=body, headers=bearer(LEAD)) as answer:
                found.append((body, answer.status, await answer.text()))
        listed = await client.get("/api/v1/approvals", headers=bearer(LEAD))
        return [*found, ({}, 403, json.dumps(listed))]

    return served(marked, work, filed=RECORD, controls=log, standing=STANDING, requests=requests), log


def tells(body: dict[str, Any], text: str) -> bool:
    for word in (OTHER_ALERT, OTHER_JOB, str(NUMBER)):
        text = text.replace(word, "") if word in json.dumps(body) else text
    return MARKER in text or str(NUMBER) in text


def test_no_refusal_tells_of_another_team(marked: ClickHouseStore) -> None:
    found, log = answers(marked)
    assert [each for each in found if tells(each[0], each[2])] == []
    assert [status for _, status, _ in found if status not in (400, 403, 404)] == []
    assert log.records == []


def test_an_alert_of_another_team_is_answered_as_none(marked: ClickHouseStore) -> None:
    nobodys = f"al_{'9' * 24}"

    async def work(client: Client) -> list[tuple[int, str]]:
        found = []
        for alert in (OTHER_ALERT, nobodys, OWN_ALERT):
            body = {"kind": "ack", "alert_id": alert, **UNTIL}
            url = f"{client.server.url}/api/v1/controls"
            async with client.session.post(url, json=body, headers=bearer(LEAD)) as answer:
                found.append((answer.status, (await answer.text()).replace(alert, "")))
        return found

    theirs, none, own = served(marked, work, filed=RECORD, controls=Kept())
    assert theirs == none
    assert (none[0], own[0]) == (404, 202), own


def test_a_budget_of_another_team_is_raised_and_answered_as_none(marked: ClickHouseStore) -> None:
    async def work(client: Client) -> list[tuple[int, str]]:
        found = []
        for name in ("theirs", "nobody"):
            body = {"kind": "budget", "name": name, "replaces": {"usd": "1"}, "usd": "2"}
            url = f"{client.server.url}/api/v1/controls"
            async with client.session.post(url, json=body, headers=bearer(LEAD)) as answer:
                found.append((answer.status, (await answer.text()).replace(name, "")))
        return found

    theirs, none = served(marked, work, filed=RECORD, controls=Kept(), standing=STANDING)
    assert theirs == none
    assert none[0] == 404


def test_planted_holes_are_found(marked: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(controls, "within_bounds", lambda standing, _: standing)
        assert [body["name"] for body, _, text in answers(marked)[0] if tells(body, text)] == ["theirs"] * 2
    with monkeypatch.context() as planted:
        planted.setattr(token_bounds, "_own_fields", lambda value: [STANDING[b"budget/theirs"].value])
        assert [body for body, _, text in answers(marked)[0] if tells(body, text)]
