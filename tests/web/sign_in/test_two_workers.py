"""Two workers behind one address that does not keep a browser at one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from yarl import URL

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.config.serving import SignInSettings
from tests.web.approvals import SILENCE, Kept
from tests.web.serving import WALL_MS, Client, serving
from tests.web.sign_in.identity import CLIENT_ID, CLIENT_SECRET, PUBLIC, ROLES, Browser, Identity, state_of


@asynccontextmanager
async def two_workers(
    folder: Path, log: Kept, requests: dict[bytes, ControlEvent]
) -> AsyncIterator[tuple[Identity, Browser, Browser]]:
    """A browser at each of them; cookies know no ports, so what one has the other may be given."""
    (folder / "roles.toml").write_text(ROLES)
    identity = Identity()
    identity.groups = ["sre"]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(identity.serving())
        sign_in = SignInSettings(
            issuer=identity.issuer,
            client_id=CLIENT_ID,
            client_secret=SecretStr(CLIENT_SECRET),
            roles_file=folder / "roles.toml",
        )
        options: dict[str, Any] = {
            "sign_in": sign_in,
            "public_url": PUBLIC,
            "controls": log,
            "requests": requests,
        }
        clients: list[Client] = [await stack.enter_async_context(serving(None, **options)) for _ in range(2)]
        browsers = [Browser(client, identity) for client in clients]
        for each in browsers:
            await stack.enter_async_context(each.session)
        yield identity, browsers[0], browsers[1]


async def control(browser: Browser, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = await browser.ask(path, "POST", json=body, headers={"Origin": browser.url})
    return answer.status, await answer.json()


def test_a_sign_in_ends_at_the_worker_where_it_began(tmp_path: Path) -> None:
    async def go() -> None:
        async with two_workers(tmp_path, Kept(), {}) as (identity, one, other):
            authorize = await one.begun()
            other.session.cookie_jar.update_cookies(
                one.session.cookie_jar.filter_cookies(URL(one.url) / "sign_in/callback")
            )
            code = identity.code(authorize)
            assert await other.back(code, state_of(authorize)) == "/#sign-in-state"
            assert await one.back(code, state_of(authorize)) == "/", "the code was not spent there"
            other.session.cookie_jar.update_cookies(one.session.cookie_jar.filter_cookies(URL(one.url)))
            assert (await one.status(), await other.status()) == (200, 401)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("second", "status"),
    [({"email": "ada@other.example"}, 403), ({"sub": "bob-1", "email": "bob@example.com"}, 202)],
)
def test_nobody_is_a_second_person_by_another_name_at_another_worker(
    tmp_path: Path, second: dict[str, Any], status: int
) -> None:
    async def go() -> None:
        log, requests = Kept(), dict[bytes, ControlEvent]()
        async with two_workers(tmp_path, log, requests) as (identity, one, other):
            await one.sign_in()
            asked_status, asked = await control(one, "/api/v1/controls", SILENCE)
            assert (asked_status, asked["kind"]) == (202, "request")
            event = decode("controls", log.records[0].value, (), WALL_MS)
            assert isinstance(event, ControlEvent)
            requests[log.records[0].key] = event
            identity.claims = second
            await other.sign_in()
            state = await (await other.ask("/api/v1/sign_in")).json()
            assert state["name"] == second["email"], "the other worker knows no name of before"
            found, answer = await control(other, "/api/v1/approvals", {"id": asked["name"]})
            assert found == status, answer
            assert (answer.get("error", {}).get("code") == "not_second") == (status == 403)

    asyncio.run(go())
