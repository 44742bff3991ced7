"""The page where people sign in: the way in, who is in, the way out, over the worker's own server and a provider of the test's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from streams.config.serving import SignInSettings
from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.web.sign_in.identity import CLIENT_ID, CLIENT_SECRET, ROLES, Identity


@pytest.fixture
def identity() -> Iterator[Identity]:
    """A provider that asks for no password, in a loop of its own."""
    found, ready, loop = Identity(), threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        async with found.serving():
            ready.set()
            await over.wait()

    over = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    yield found
    loop.call_soon_threadsafe(over.set)
    thread.join(10)
    loop.close()


def test_a_person_comes_in_is_named_and_leaves(identity: Identity, tmp_path: Path, opened: Open) -> None:
    roles = tmp_path / "roles.toml"
    roles.write_text(ROLES)
    settings = SignInSettings(
        issuer=identity.issuer, client_id=CLIENT_ID, client_secret=SecretStr(CLIENT_SECRET), roles_file=roles
    )
    with serving_page(None, sign_in=settings, public_url="http://localhost") as url:
        identity.returns_to = url
        watched = opened(url)
        watched.provoked = ("401", "503")  # nobody is in, and there is no store
        page = watched.page
        link = page.get_by_role("link", name="Sign in")
        expect(link).to_be_visible()
        identity.groups = ["strangers"]
        link.click()
        expect(page.get_by_role("alert")).to_have_text(
            "You are signed in, and none of your groups has a role here. Ask whoever runs this worker."
        )
        assert page.url == f"{url}/"
        identity.groups = ["everyone"]
        link.click()
        expect(page.locator("#person")).to_contain_text("ada@example.com")
        watched.requests[:] = [each for each in watched.requests if not each.startswith(identity.issuer)]
        expect(page.locator("#unlock")).to_be_hidden()
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        expect(link).to_be_visible()
        expect(page.locator("#person")).to_be_hidden()
