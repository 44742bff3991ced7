"""An identity provider of a test's own, whose tokens a test may make wrong; and a browser that goes through a sign-in."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web
from joserfc import jwk, jwt

from streams.config.serving import SignInSettings
from streams.web.record_log import RecordLog
from tests.web.serving import WALL_MS, Client, serving

CLIENT_ID = "trainfare-of-tests"
CLIENT_SECRET = "a secret: of tests"
PUBLIC = "http://localhost"
ROLES = """
[[roles]]
group = "everyone"
role = "viewer"
teams = "all"

[[roles]]
group = "on-call"
role = "operator"

[[roles]]
group = "sre"
role = "admin"
"""
READ = "/api/v1/whoami"


def rsa(key_id: str) -> jwk.RSAKey:
    return jwk.RSAKey.generate_key(2048, parameters={"kid": key_id})


@cache
def _first() -> jwk.RSAKey:
    return rsa("first")


class Identity:
    """The provider: each sign-in is of `claims`, signed by `key`."""

    def __init__(self) -> None:
        self.key: Any = _first()
        self.algorithm = "RS256"
        self.published: list[dict[str, Any]] = [self.key.as_dict(private=False)]
        self.claims: dict[str, Any] = {}
        self.groups: list[str] = ["everyone"]
        self.token: str | None = None  # in place of the one that is signed
        self.padding = 0  # bytes of the JWKS
        self.keys_asked = 0
        self.codes: dict[str, dict[str, str]] = {}
        self.issuer = ""
        self.returns_to = ""  # where a browser that is sent here is led back to
        self.gives: set[str] = set()  # of refresh, id_token (of a refresh), access
        self.refuses: tuple[int, str] | None = None  # what it answers to whoever asks again
        self.now_ms: Callable[[], int] = lambda: WALL_MS
        self.refreshed = 0
        self.asked_userinfo = 0

    def code(self, authorize: str) -> str:
        """Sign in: the code for what a browser was sent with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(authorize).query).items()}
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return code

    def signed(self, nonce: str | None, **changes: Any) -> str:
        """An id token with changes; a claim of None is left out."""
        now_s = self.now_ms() // 1_000
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "ada-1",
            "email": "ada@example.com",
            "email_verified": True,
            "groups": self.groups,
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": nonce,
            **self.claims,
            **changes,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return jwt.encode(header, kept, self.key, algorithms=[self.algorithm])

    async def _authorize(self, request: web.Request) -> web.Response:
        """Let everybody in without a question."""
        query = {"code": self.code(str(request.url)), "state": request.query["state"]}
        raise web.HTTPSeeOther(f"{self.returns_to}/sign_in/callback?{urlencode(query)}")

    async def _discovery(self, _: web.Request) -> web.Response:
        names = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "jwks_uri": "keys",
            **({"userinfo_endpoint": "userinfo"} if "access" in self.gives else {}),
        }
        found = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        return web.json_response({"issuer": self.issuer, **found})

    async def _keys(self, _: web.Request) -> web.Response:
        self.keys_asked += 1
        return web.json_response({"keys": self.published, "padding": " " * self.padding})

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        basic = aiohttp.encode_basic_auth(CLIENT_ID, "a%20secret%3A%20of%20tests")
        if request.headers.get("Authorization") == basic and form["grant_type"] == "refresh_token":
            return self._refresh(str(form["refresh_token"]))
        asked = self.codes.pop(str(form["code"]), None)
        if asked is None or request.headers.get("Authorization") != basic:
            return web.json_response({"error": "invalid_grant"}, status=400)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        assert form["redirect_uri"] == asked["redirect_uri"] == f"{PUBLIC}/sign_in/callback"
        return web.json_response(
            {
                "id_token": self.token or self.signed(asked["nonce"]),
                "token_type": "Bearer",
                **self._more(),
            }
        )

    def _more(self) -> dict[str, str]:
        """Each refresh token is good once, as many providers have it."""
        refresh = {"refresh_token": f"refresh-{self.refreshed}"} if "refresh" in self.gives else {}
        return {**refresh, **({"access_token": "access"} if "access" in self.gives else {})}

    def _refresh(self, token: str) -> web.Response:
        if self.refuses is not None:
            return web.json_response({"error": self.refuses[1]}, status=self.refuses[0])
        if token != f"refresh-{self.refreshed}":
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.refreshed += 1
        again = {"id_token": self.token or self.signed(None)} if "id_token" in self.gives else {}
        return web.json_response({**again, "token_type": "Bearer", **self._more()})

    async def _userinfo(self, request: web.Request) -> web.Response:
        self.asked_userinfo += 1
        if self.refuses is not None or request.headers.get("Authorization") != "Bearer access":
            status, error = self.refuses or (401, "invalid_token")
            return web.json_response({"error": error}, status=status)
        said = {"sub": "ada-1", "groups": self.groups, **self.claims}
        return web.json_response({name: value for name, value in said.items() if value is not None})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        app.router.add_get("/userinfo", self._userinfo)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()


class Browser:
    """Keeps cookies, follows no redirect by itself."""

    def __init__(self, client: Client, identity: Identity) -> None:
        self.url, self.identity = client.server.url, identity
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def ask(self, path: str, method: str = "GET", **options: Any) -> aiohttp.ClientResponse:
        async with self.session.request(method, self.url + path, allow_redirects=False, **options) as answer:
            await answer.read()
            return answer

    async def begun(self, to: str = "/") -> str:
        """Where the provider is asked, for a sign-in."""
        answer = await self.ask("/sign_in", params={"to": to})
        assert answer.status == 303, await answer.text()
        return answer.headers["Location"]

    async def back(self, code: str, state: str, **more: str) -> str:
        """Where a browser that comes back is led to."""
        answer = await self.ask("/sign_in/callback", params={"code": code, "state": state, **more})
        assert answer.status == 303, await answer.text()
        return answer.headers["Location"]

    async def sign_in(self, to: str = "/") -> str:
        """Where a sign-in ends."""
        authorize = await self.begun(to)
        return await self.back(self.identity.code(authorize), state_of(authorize))

    async def sign_out(self) -> int:
        """Sign out as the page does."""
        return (await self.ask("/api/v1/sign_out", "POST", headers={"Origin": self.url})).status

    async def status(self, path: str = READ) -> int:
        return (await self.ask(path)).status


def state_of(authorize: str) -> str:
    return parse_qs(urlsplit(authorize).query)["state"][0]


@asynccontextmanager
async def signing_in(
    folder: Path,
    clock: Callable[[], int] | None = None,
    *,
    public_url: str = PUBLIC,
    log: RecordLog | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Browser, Identity, Client]]:
    """A worker at which people sign in by a provider, and a browser."""
    roles, identity = folder / "roles.toml", Identity()
    roles.write_text(ROLES)
    identity.now_ms = clock or identity.now_ms
    async with identity.serving():
        sign_in = SignInSettings(
            **{
                "issuer": identity.issuer,
                "client_id": CLIENT_ID,
                "client_secret": CLIENT_SECRET,
                "roles_file": roles,
                **settings,
            }
        )
        async with serving(
            None, sign_in=sign_in, clock=clock, public_url=public_url, controls=log, events=log
        ) as client:
            browser = Browser(client, identity)
            async with browser.session:
                yield browser, identity, client
