"""Signing in by a real identity provider, oidc-provider of npm: login, expiry, logout, new keys, and who loses a group or the account."""

from __future__ import annotations

import asyncio
import html
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import aiohttp
import pytest
from joserfc import jwk
from pydantic import SecretStr

from streams.config.serving import SignInSettings
from streams.web.sign_in import provider
from tests.web.serving import serving
from tests.web.sign_in.identity import READ, ROLES

pytestmark = pytest.mark.long

_PACKAGE: Final = "oidc-provider@9.13.3"
_FOLDER: Final = Path.home() / ".cache/trainfare/npm" / _PACKAGE
_ACTION: Final = re.compile(r'<form[^>]* action="([^"]+)"')


def modules() -> Path:
    """Where the provider is installed, which is done once; skips where it cannot be."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip(
            "no Node.js with npm (Debian: apt-get install npm): the real identity provider is a package of npm"
        )
    if not (_FOLDER / "node_modules/oidc-provider").is_dir():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        command = [
            npm,
            "install",
            "--prefix",
            str(_FOLDER),
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            _PACKAGE,
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
        if done.returncode:
            pytest.skip(f"npm cannot install {_PACKAGE}: {done.stderr[-300:]}")
    return _FOLDER / "node_modules/"


@contextmanager
def running(port: int, groups: Path, keys: Path, redirect: str, gives: str = "") -> Iterator[None]:
    script = Path(__file__).with_name("provider.mjs")
    command = ["node", str(script), f"{modules()}/", str(port), str(groups), str(keys), redirect, gives]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(line == "listening\n" for line in process.stdout), "it did not start"
            yield
        finally:
            process.terminate()


def new_key(path: Path, key_id: str) -> None:
    key = jwk.RSAKey.generate_key(2048, parameters={"kid": key_id, "use": "sig", "alg": "RS256"})
    path.write_text(json.dumps({"keys": [key.as_dict(private=True)]}))


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


class Person:
    """A browser without a screen: it follows redirects and fills in the provider's forms."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        self.back = ""  # the address by which the provider sent it back

    async def go(self, url: str, form: dict[str, str] | None = None) -> str:
        """Where it ends, after all forms."""
        for _ in range(20):
            method = "GET" if form is None else "POST"
            async with self.session.request(method, url, data=form, allow_redirects=False) as answer:
                text = await answer.text()
                location = answer.headers.get("Location")
            form = None
            if location is not None:
                url = urljoin(url, location)
                if "/sign_in/callback" in url:
                    self.back = url
                continue
            found = _ACTION.search(text)
            if url.startswith(self.url) or found is None:
                return url
            url = urljoin(url, html.unescape(found[1]))
            is_login = 'value="login"' in text
            form = (
                {"prompt": "login", "login": "ada", "password": "any"} if is_login else {"prompt": "consent"}
            )
        raise AssertionError("it leads in a circle")

    async def who(self) -> tuple[int, list[str]]:
        async with self.session.get(self.url + READ) as answer:
            said = await answer.json()
            return answer.status, said.get("scopes", [said.get("error", {}).get("code")])


def test_login_expiry_logout_a_change_of_groups_and_new_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, keys, roles = tmp_path / "groups", tmp_path / "keys", tmp_path / "roles.toml"
    groups.write_text('["everyone"]')
    roles.write_text(ROLES)
    new_key(keys, "first")
    port, own = free_port(), free_port()
    redirect, ahead_ms, now_ms = f"http://localhost:{own}/sign_in/callback", [0], [1_000_000]
    real = provider.Provider.__init__
    monkeypatch.setattr(
        provider.Provider, "__init__", lambda self, settings, _: real(self, settings, lambda: now_ms[0])
    )
    settings = SignInSettings(
        issuer=f"http://localhost:{port}",
        client_id="trainfare",
        client_secret=SecretStr("a-secret-of-the-real-provider"),
        scopes="openid email groups",
        roles_file=roles,
    )

    async def work() -> None:
        def clock() -> int:
            return int(time.time() * 1_000) + ahead_ms[0]

        public = f"http://localhost:{own}"
        async with serving(None, sign_in=settings, clock=clock, port=own, public_url=public):
            person = Person(public)
            async with person.session:
                with running(port, groups, keys, redirect):
                    assert await person.who() == (401, ["unauthorized"])
                    assert await person.go(f"{public}/sign_in?to=/%23/costs") == f"{public}/#/costs"
                    assert await person.who() == (200, ["read"])
                    # The address by which it came back is good once.
                    assert await person.go(person.back) == f"{public}/#sign-in-state"
                    async with person.session.post(
                        f"{public}/api/v1/sign_out", headers={"Origin": public}
                    ) as answer:
                        assert answer.status == 200
                    assert (await person.who())[0] == 401
                    groups.write_text('["on-call"]')
                    await person.go(f"{public}/sign_in")
                    assert (await person.who())[0] == 200
                    async with person.session.get(
                        f"{public}/api/v1/sign_in", headers={"Origin": public}
                    ) as answer:
                        assert (await answer.json())["scopes"] == ["metrics", "read", "query", "act"]
                    ahead_ms[0] = 3_900_000  # nobody asks the provider here: a session ends without its word
                    assert (await person.who())[0] == 401
                    ahead_ms[0] = 0
                    groups.write_text('["strangers"]')
                    assert await person.go(f"{public}/sign_in") == f"{public}/#sign-in-no_role"
                    groups.write_text('["everyone"]')
                new_key(keys, "second")
                with running(port, groups, keys, redirect):
                    # Its keys were asked for just now, and are not asked for again as soon.
                    assert await person.go(f"{public}/sign_in") == f"{public}/#sign-in-token"
                    now_ms[0] += provider.KEYS_EVERY_MS
                    assert await person.go(f"{public}/sign_in") == f"{public}/"
                    assert (await person.who())[0] == 200

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.parametrize("gives", ["refresh", "userinfo"])
def test_a_group_or_an_account_that_is_taken_away_takes_effect_within_the_interval(
    tmp_path: Path, gives: str
) -> None:
    groups, keys, roles = tmp_path / "groups", tmp_path / "keys", tmp_path / "roles.toml"
    groups.write_text('["everyone", "sre"]')
    roles.write_text(ROLES)
    new_key(keys, "first")
    port, own, ahead_ms = free_port(), free_port(), [0]
    public = f"http://localhost:{own}"
    settings = SignInSettings(
        issuer=f"http://localhost:{port}",
        client_id="trainfare",
        client_secret=SecretStr("a-secret-of-the-real-provider"),
        scopes="openid email groups",
        roles_file=roles,
    )

    async def status(person: Person, path: str) -> int:
        async with person.session.get(public + path, headers={"Origin": public}) as answer:
            return answer.status

    async def work() -> None:
        def clock() -> int:
            return int(time.time() * 1_000) + ahead_ms[0]

        async with serving(None, sign_in=settings, clock=clock, port=own, public_url=public) as client:
            asking = client.server.recheck
            assert asking is not None

            async def later() -> None:
                ahead_ms[0] += settings.recheck_ms
                await asking.ask()

            person = Person(public)
            async with person.session:
                with running(port, groups, keys, f"{public}/sign_in/callback", gives):
                    assert await person.go(f"{public}/sign_in") == f"{public}/"
                    assert await status(person, "/api/v1/tokens") == 200
                    groups.write_text('["everyone"]')
                    await later()
                    # The group is gone, the person is not.
                    assert (await status(person, "/api/v1/tokens"), await status(person, READ)) == (403, 200)
                    groups.write_text("null")
                    await later()
                    assert await status(person, READ) == 401
                    groups.write_text('["sre"]')
                    assert await person.go(f"{public}/sign_in") == f"{public}/"
                # It does not answer any more: who is signed in stays so for an hour.
                await later()
                assert await status(person, "/api/v1/tokens") == 200
                ahead_ms[0] += 3_600_000
                assert await status(person, "/api/v1/tokens") == 401

    asyncio.run(asyncio.wait_for(work(), 120))
