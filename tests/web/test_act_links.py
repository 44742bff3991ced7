"""Acting by the signed link of a message: what it does, and what nobody can do with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.notify.act_links import LASTS_MS, ActLinks, offer_of
from streams.web.act_links import BODY_MAX_BYTES
from streams.web.controls import BURST
from tests.notify.scripted_sender import NOW_MS, an_alert
from tests.web.serving import TOKEN, Client, served
from tests.web.test_controls import Log

KEY = "a-key-of-thirty-two-characters-or-more"
LINK = ActLinks(KEY).token(offer_of(an_alert()))
BODY: dict[str, Any] = {"link": LINK, "act": "ack", "hours": 4}


async def post(client: Client, body: object, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{client.server.url}/api/v1/act"
    sent = {"Content-Type": "application/json", **headers}
    async with client.session.post(url, data=data, headers=sent) as answer:
        return answer.status, await answer.json()


def posted(body: object, log: Log | None = None, *, key: str | None = KEY, **options: Any) -> tuple[int, Any]:
    async def work(client: Client) -> tuple[int, Any]:
        return await post(client, body)

    options = {"wall_ms": NOW_MS, "token": TOKEN, "controls": Log() if log is None else log, **options}
    return served(None, work, act_link_key=key, **options)


@pytest.mark.parametrize("act", ["ack", "silence", "planned"])
def test_an_act_needs_no_token_and_says_by_what_it_was_done(act: str) -> None:
    log = Log()
    status, found = posted({**BODY, "act": act, "comment": "on it"}, log)
    assert status == 202, found
    ((_, value),) = log.records
    event = decode("controls", value, (), NOW_MS)
    assert isinstance(event, ControlEvent)
    assert (event.kind, event.value["by"], event.value["comment"]) == (act, "signed link", "on it")
    assert event.value["until_ms"] == found["until_ms"] == NOW_MS + 4 * 3_600_000


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"link": LINK[:-1]}, 401, "no link of this worker"),
        ({"link": ActLinks("K" * 40).token(offer_of(an_alert()))}, 401, "no link of this worker"),
        ({"link": ActLinks(KEY).token(offer_of(an_alert(changed_ms=NOW_MS - LASTS_MS)))}, 410, "has ended"),
        (
            {"link": ActLinks(KEY).token(offer_of(an_alert(rule="unpriced"))), "act": "planned"},
            400,
            "ack, silence",
        ),
        ({"act": "budget"}, 400, "budget"),
        ({"hours": 25}, 400, "hours"),
        ({"hours": 0}, 400, "hours"),
        ({"hours": True}, 400, "hours"),
        ({"comment": "x" * 1_001}, 400, "comment"),
        ({"until_ms": 2**53}, 400, "until_ms"),
        ({"link": "x" * 4_097}, 400, "link"),
    ],
)
def test_what_is_refused_writes_nothing(change: dict[str, Any], status: int, word: str) -> None:
    log = Log()
    found_status, found = posted({**BODY, **change}, log)
    assert (found_status, word in found["error"]["message"]) == (status, True), found
    assert not log.records


def test_a_large_body_and_another_type_are_refused_unread() -> None:
    assert posted(b"{" + b" " * BODY_MAX_BYTES + b"}")[0] == 413

    async def work(client: Client) -> tuple[int, Any]:
        return await post(client, BODY, **{"Content-Type": "text/plain"})

    assert served(None, work, wall_ms=NOW_MS, controls=Log(), act_link_key=KEY)[0] == 415


def test_without_a_key_no_link_is_taken() -> None:
    status, found = posted(BODY, key=None)
    assert (status, found["error"]["code"]) == (403, "links_off")


def test_where_no_controls_are_written_a_link_writes_none() -> None:
    status, found = posted(BODY, controls=None)
    assert (status, found["error"]["code"]) == (403, "acting_off")


def test_another_site_cannot_act_with_a_link_of_its_reader() -> None:
    log = Log()

    async def work(client: Client) -> tuple[int, Any]:
        return await post(client, BODY, Origin="https://evil.example.com")

    assert served(None, work, wall_ms=NOW_MS, controls=log, act_link_key=KEY)[0] == 403
    assert not log.records


def test_links_give_no_right_to_read() -> None:
    async def work(client: Client) -> None:
        await client.get("/api/v1/jobs", 401, headers={"Authorization": f"Bearer {LINK}"})

    served(None, work, token=TOKEN, act_link_key=KEY)


def test_guesses_and_a_flood_are_slowed() -> None:
    log = Log()

    async def work(client: Client) -> tuple[list[int], list[int]]:
        good = [(await post(client, {**BODY, "comment": str(each)}))[0] for each in range(BURST + 2)]
        return good, [(await post(client, {**BODY, "link": f"{each}.x"}))[0] for each in range(12)]

    good, wrong = served(None, work, wall_ms=NOW_MS, controls=log, act_link_key=KEY)
    assert good[:BURST] == [202] * BURST
    assert 429 in good[BURST:]
    assert wrong[0] == 401
    assert wrong[-1] == 429
