"""The identity provider is asked again about people who are signed in: what takes effect, and when a session ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from streams.web.sign_in.sessions import PROVIDER_AWAY_MS, PersonSessions
from tests.logged import logged
from tests.web.serving import WALL_MS, Client
from tests.web.sign_in.identity import Browser, Identity, rsa, signing_in

#: For an admin alone.
TOKENS: Final = "/api/v1/tokens"
OWN: Final = {"Sec-Fetch-Site": "same-origin"}
RECHECK_MS: Final = 300_000
WAYS: Final = [{"refresh", "id_token"}, {"refresh", "access"}, {"access"}]


class Signed:
    """Somebody who has signed in, and the clock."""

    def __init__(self, browser: Browser, identity: Identity, client: Client, now_ms: list[int]) -> None:
        self.browser, self.identity, self.client, self.now_ms = browser, identity, client, now_ms

    @property
    def sessions(self) -> PersonSessions:
        recheck = self.client.server.recheck
        assert recheck is not None
        return recheck._people.sessions

    async def later(self, by_ms: int = RECHECK_MS) -> None:
        """Let time go by, at whose end the worker looks whom to ask about."""
        self.now_ms[0] += by_ms
        assert self.client.server.recheck is not None
        await self.client.server.recheck.ask()

    async def status(self, path: str = TOKENS) -> int:
        return (await self.browser.ask(path, headers=OWN)).status


@asynccontextmanager
async def signed(
    folder: Path, gives: set[str], groups: tuple[str, ...] = ("sre",), **settings: Any
) -> AsyncIterator[Signed]:
    now_ms = [WALL_MS]
    async with signing_in(folder, lambda: now_ms[0], **settings) as (browser, identity, client):
        identity.gives, identity.groups = gives, list(groups)
        assert await browser.sign_in() == "/"
        yield Signed(browser, identity, client, now_ms)


@pytest.mark.parametrize("gives", WAYS, ids=lambda ways: " ".join(sorted(ways)))
def test_another_group_takes_effect_within_the_interval(tmp_path: Path, gives: set[str]) -> None:
    async def go() -> None:
        async with signed(tmp_path, gives) as ada:
            assert await ada.status() == 200
            ada.identity.groups = ["everyone"]
            await ada.later(RECHECK_MS - 1)
            assert await ada.status() == 200
            await ada.later(1)
            assert (await ada.status(), await ada.status("/api/v1/whoami")) == (403, 200)
            ada.identity.groups = ["sre"]
            await ada.later()
            assert await ada.status() == 200
            ada.identity.groups = ["none-of-these"]
            await ada.later()
            assert (await ada.status(), len(ada.sessions)) == (401, 0)

    asyncio.run(go())


@pytest.mark.parametrize("gives", WAYS, ids=lambda ways: " ".join(sorted(ways)))
@pytest.mark.parametrize("refuses", [(400, "invalid_grant"), (401, "invalid_token"), (403, "access_denied")])
def test_a_disabled_person_is_out_within_the_interval(
    tmp_path: Path, gives: set[str], refuses: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        async with signed(tmp_path, gives) as ada:
            ada.identity.refuses = refuses
            await ada.later()
            assert await ada.status() == 401

    asyncio.run(go())
    assert refuses[1] in logged(caplog)
    assert "refresh-0" not in logged(caplog)


@pytest.mark.parametrize("gives", WAYS, ids=lambda ways: " ".join(sorted(ways)))
@pytest.mark.parametrize(
    "refuses", [(500, "server_error"), (429, "slow_down"), (401, "invalid_client"), (404, "")]
)
def test_without_an_answer_sessions_go_on_for_an_hour(
    tmp_path: Path, gives: set[str], refuses: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        async with signed(tmp_path, gives) as ada:
            ada.identity.refuses = refuses
            await ada.later()
            assert await ada.status() == 200
            await ada.later(PROVIDER_AWAY_MS - 1)
            assert await ada.status() == 200
            ada.now_ms[0] += 1  # even where nobody looks
            assert await ada.status() == 401

    asyncio.run(go())
    assert logged(caplog).count("sessions go on") == 1


def test_after_an_outage_the_provider_is_asked_again_soon(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"access"}) as ada:
            ada.identity.refuses = (503, "")
            await ada.later()
            ada.identity.refuses, ada.identity.groups = None, ["everyone"]
            await ada.later(29_999)
            assert (await ada.status(), ada.identity.asked_userinfo) == (200, 1)
            await ada.later(1)
            assert (await ada.status(), ada.identity.asked_userinfo) == (403, 2)

    asyncio.run(go())


def test_where_the_provider_gives_no_way_to_ask_the_session_is_as_short_as_the_interval(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        async with signed(tmp_path, set()) as ada:
            await ada.later(RECHECK_MS - 1)
            assert await ada.status() == 200
            ada.now_ms[0] += 1
            assert await ada.status() == 401

    asyncio.run(go())
    assert "gives no way to ask again" in logged(caplog)


def test_with_0_a_group_takes_effect_at_the_next_sign_in(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"access"}, recheck_ms=0) as ada:
            assert ada.client.server.recheck is None
            ada.identity.groups = ["everyone"]
            ada.now_ms[0] += 43_200_000 - 1
            assert await ada.status() == 200
            await ada.browser.sign_in()
            assert await ada.status() == 403

    asyncio.run(go())


def test_a_renewed_session_ends_when_it_would_have_anyway(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"refresh", "access"}) as ada:
            for _ in range(43_200_000 // RECHECK_MS - 1):
                await ada.later()
            assert (await ada.status(), ada.identity.refreshed) == (200, 143)
            await ada.later()
            assert await ada.status() == 401

    asyncio.run(go())


@pytest.mark.parametrize(
    "claims",
    [{"sub": "eve-1"}, {"aud": "another-client"}, {"exp": 1}],
    ids=str,
)
def test_a_token_of_a_refresh_is_checked_as_that_of_a_sign_in(tmp_path: Path, claims: dict[str, Any]) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"refresh", "id_token"}) as ada:
            ada.identity.token = ada.identity.signed(None, **claims)
            await ada.later()
            assert await ada.status() == 401

    asyncio.run(go())


def test_a_token_of_a_refresh_with_the_nonce_of_another_sign_in_ends_the_session(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"refresh", "id_token"}) as ada:
            ada.identity.token = ada.identity.signed("of-another-sign-in")
            await ada.later()
            assert await ada.status() == 401

    asyncio.run(go())


def test_a_token_of_a_refresh_by_a_foreign_key_raises_nobody(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"refresh", "id_token"}, ("everyone",)) as ada:
            published = ada.identity.key
            ada.identity.key, ada.identity.groups = rsa("first"), ["sre"]
            ada.identity.token = ada.identity.signed(None)
            ada.identity.key = published
            await ada.later()
            assert await ada.status() == 401

    asyncio.run(go())


def test_somebody_elses_userinfo_ends_the_session(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"access"}) as ada:
            ada.identity.claims = {"sub": "eve-1"}
            await ada.later()
            assert await ada.status() == 401

    asyncio.run(go())


def test_the_name_stays_so_that_nobody_is_two_persons(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"refresh", "id_token"}) as ada:
            ada.identity.claims = {"email": "other@example.com"}
            await ada.later()
            who = await (await ada.browser.ask("/api/v1/whoami")).json()
            assert who["token"] == "person/ada@example.com"

    asyncio.run(go())


def test_a_session_that_was_signed_out_meanwhile_stays_so(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"access"}) as ada:
            sessions = ada.sessions
            ada.now_ms[0] += RECHECK_MS
            (due,) = sessions.due(ada.now_ms[0])
            assert (await ada.browser.sign_out()) == 200
            sessions.vouched(due.hashed, due.person.granted, due.renewal, ada.now_ms[0])
            sessions.not_answered(due.hashed, ada.now_ms[0])
            assert len(sessions) == 0

    asyncio.run(go())


def test_a_stream_ends_when_the_role_changes(tmp_path: Path) -> None:
    async def go() -> None:
        async with (
            signed(tmp_path, {"access"}) as ada,
            ada.browser.session.get(f"{ada.browser.url}/api/v1/stream", headers=OWN) as answer,
        ):
            assert answer.status == 200
            ada.identity.groups = ["everyone"]
            await ada.later()
            await asyncio.wait_for(answer.content.read(), 30)

    asyncio.run(go())


def test_no_token_of_the_provider_is_shown(tmp_path: Path) -> None:
    async def go() -> None:
        async with signed(tmp_path, {"refresh", "access"}) as ada:
            sessions = ada.sessions
            (found,) = sessions.due(ada.now_ms[0] + RECHECK_MS)
            assert (found.renewal.refresh_token, found.renewal.access_token) == ("refresh-0", "access")
            assert "refresh-0" not in repr(found)
            assert "access" not in repr(found)

    asyncio.run(go())
