"""POST /api/v1/receivers/test: who may, what is answered, and what a flood or a slow receiver does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streams.notify.receiver_check import ReceiverCheckResult
from streams.web.receivers import BODY_MAX_BYTES, BURST
from tests.web.serving import LOCAL, TOKEN, Client, served
from tests.web.test_scopes import bearer

PATH = "/api/v1/receivers/test"
WRITE = "may-write-and-nothing-else"
RESULT = ReceiverCheckResult("https://hooks.example.com", "webhook", "delivered", 204, "")


class Receivers:
    """Knows one owner; `sent` has those whose receivers were tried."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def nobody(self, owner: str) -> str:
        return "" if owner == "ada" else f"owner {owner} has no address"

    async def send(self, owner: str) -> Sequence[ReceiverCheckResult]:
        self.sent.append(owner)
        return [RESULT]


async def post(client: Client, body: object, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or bearer(WRITE))}
    async with client.session.post(client.server.url + PATH, data=data, headers=sent) as answer:
        return answer.status, await answer.json()


def posted(body: object, tester: Receivers | None, **headers: str) -> tuple[int, Any]:
    async def work(client: Client) -> tuple[int, Any]:
        return await post(client, body, **headers)

    return served(None, work, receivers=tester, write_token=WRITE, read_token="r" * 20, token=TOKEN)


def test_what_happened_is_answered() -> None:
    tester = Receivers()
    assert posted({"owner": "ada"}, tester) == (200, {"results": [RESULT._asdict()]})
    assert posted({"owner": "ada"}, tester, **LOCAL)[0] == 200
    assert tester.sent == ["ada", "ada"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [(bearer("r" * 20), 403), (bearer("wrong-token-of-sixteen"), 401), ({"X-Nothing": "1"}, 401)],
)
def test_it_needs_the_scope_write(headers: dict[str, str], status: int) -> None:
    tester = Receivers()
    assert posted({"owner": "ada"}, tester, **headers)[0] == status
    assert tester.sent == []


def test_an_owner_without_a_receiver_and_a_process_without_alerts_say_so() -> None:
    tester = Receivers()
    status, found = posted({"owner": "b\nob"}, tester)
    assert (status, found["error"]["code"]) == (404, "no_receiver")
    assert "\n" not in found["error"]["message"]
    assert posted({"owner": "ada"}, None)[1]["error"]["code"] == "not_ready"
    assert tester.sent == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"owner": 1}', b'{"owner": "a", "url": "http://x"}', b'{"owner": "\xff"}', b"[" * 2_000],
)
def test_a_body_that_is_none_is_refused(body: bytes) -> None:
    tester = Receivers()
    assert posted(body, tester)[0] == 400
    assert posted(b"x" * (BODY_MAX_BYTES + 1), tester)[0] == 413
    assert posted({"owner": "ada"}, tester, **bearer(WRITE), **{"Content-Type": "text/plain"})[0] == 415
    assert tester.sent == []


def test_a_flood_reaches_no_receiver() -> None:
    tester = Receivers()

    async def work(client: Client) -> list[int]:
        return [(await post(client, {"owner": "ada"}))[0] for _ in range(4 * BURST)]

    statuses = served(None, work, receivers=tester, write_token=WRITE)
    assert 429 in statuses
    assert statuses.count(200) == len(tester.sent)
