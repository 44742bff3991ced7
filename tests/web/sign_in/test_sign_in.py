"""Signing in by OpenID Connect: what lets a person in, and every token, state and code that does not."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jwt

from streams.web.sign_in import provider, sessions
from streams.web.sign_in.endpoint import STATE_COOKIE
from streams.web.sign_in.people import PERSON_COOKIE
from tests.logged import logged
from tests.web.serving import WALL_MS
from tests.web.sign_in.identity import CLIENT_ID, READ, Browser, Identity, rsa, signing_in, state_of

# Tests have filters of their own: weak keys and the former name of EdDSA are what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")


def let_in(folder: Path, **claims: Any) -> tuple[str, int]:
    """Where a sign-in with such claims ends, and what the browser may then read."""

    async def go() -> tuple[str, int]:
        async with signing_in(folder) as (browser, identity, _):
            identity.claims = claims
            return await browser.sign_in(), await browser.status()

    return asyncio.run(go())


def test_a_person_signs_in_is_named_and_signs_out(tmp_path: Path) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, identity, _):
            assert await browser.status() == 401
            identity.groups = ["nothing-here", "on-call"]
            assert await browser.sign_in("/#/budgets?of=a") == "/#/budgets?of=a"
            who = await (await browser.ask(READ)).json()
            assert (who["token"], who["proven_by"]) == ("person/ada@example.com", "sign-in")
            assert who["session_until_ms"] == WALL_MS + 43_200_000
            state = await (await browser.ask("/api/v1/sign_in")).json()
            assert state["name"] == "ada@example.com"
            assert (await browser.sign_out()) == 200
            assert await browser.status() == 401

    asyncio.run(go())


def test_cookies_are_out_of_reach_of_scripts_and_sent_over_tls_alone(tmp_path: Path) -> None:
    async def go(public_url: str, headers: dict[str, str]) -> list[Any]:
        async with signing_in(tmp_path, public_url=public_url) as (browser, identity, _):
            answer = await browser.ask("/sign_in", headers=headers)
            state = SimpleCookie(answer.headers["Set-Cookie"])[STATE_COOKIE]
            authorize = answer.headers["Location"]
            query = {"code": identity.code(authorize), "state": state_of(authorize)}
            if public_url.startswith("https"):
                return [state]
            answer = await browser.ask("/sign_in/callback", params=query)
            found = SimpleCookie("; ".join(answer.headers.getall("Set-Cookie")[:1]))
            return [state, found[PERSON_COOKIE]]

    for cookie in asyncio.run(go("http://localhost", {})):
        assert (cookie["httponly"], cookie["samesite"], cookie["secure"]) == (True, "Lax", "")
    (state,) = asyncio.run(go("https://localhost", {"Host": "localhost"}))
    assert (state["httponly"], state["samesite"], state["secure"]) == (True, "Lax", True)


def test_a_session_ends(tmp_path: Path) -> None:
    now_ms = [WALL_MS]

    async def go() -> None:
        async with signing_in(tmp_path, lambda: now_ms[0], recheck_ms=0) as (browser, _, _):
            await browser.sign_in()
            now_ms[0] = WALL_MS + 43_200_000 - 1
            assert await browser.status() == 200
            now_ms[0] += 1
            assert await browser.status() == 401

    asyncio.run(go())


def test_another_group_is_another_role_at_the_next_sign_in(tmp_path: Path) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, identity, _):
            await browser.sign_in()
            own = {"Sec-Fetch-Site": "same-origin"}
            assert (await browser.ask("/api/v1/tokens", headers=own)).status == 403
            identity.groups = ["sre"]
            await browser.sign_in()
            assert (await browser.ask("/api/v1/tokens", headers=own)).status == 200
            identity.groups = ["none-of-these"]
            assert await browser.sign_in() == "/#sign-in-no_role"

    asyncio.run(go())


@pytest.mark.parametrize(
    "origin",
    [
        {},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_another_page_cannot_act_for_a_person(tmp_path: Path, origin: dict[str, str]) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, identity, client):
            identity.groups = ["sre"]
            await browser.sign_in()
            for path in ("/api/v1/controls", "/v1/metrics", "/api/v1/query"):
                assert (await browser.ask(path, "POST", headers=origin, json={})).status == 403, path
            own = {"Origin": client.server.url}
            assert (await browser.ask("/api/v1/query", "POST", headers=own, json={})).status == 400

    asyncio.run(go())


# -- tokens that are not what they must be -------------------------------------------------------------------

NOW_S = WALL_MS // 1_000


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another-client"},
        {"aud": None},
        {"aud": [CLIENT_ID, "another-client"]},
        {"azp": "another-client"},
        {"iss": "https://id.example.com"},
        {"nonce": "of-another-sign-in"},
        {"nonce": None},
        {"exp": NOW_S - 61},
        {"exp": None},
        {"exp": "never"},
        {"iat": NOW_S + 3_600},
        {"nbf": NOW_S + 3_600},
        {"sub": None},
        {"sub": ""},
    ],
    ids=str,
)
def test_a_claim_that_is_wrong_lets_nobody_in(tmp_path: Path, claims: dict[str, Any]) -> None:
    assert let_in(tmp_path, **claims) == ("/#sign-in-token", 401)


def test_the_claims_that_are_changed_there_are_right_without(tmp_path: Path) -> None:
    assert let_in(tmp_path, aud=[CLIENT_ID, "another"], azp=CLIENT_ID, exp=NOW_S - 59) == ("/", 200)


def with_token(folder: Path, made: Any) -> str:
    """Where a sign-in ends whose token is made by a function of the provider and the nonce."""

    async def go() -> str:
        async with signing_in(folder) as (browser, identity, _):
            authorize = await browser.begun()
            code = identity.code(authorize)
            identity.token = made(identity, identity.codes[code]["nonce"])
            return await browser.back(code, state_of(authorize))

    return asyncio.run(go())


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(identity: Identity, nonce: str) -> str:
    _, claims, _ = identity.signed(nonce).split(".")
    return f"{part({'alg': 'none', 'kid': 'first'})}.{claims}."


def by_public_key(identity: Identity, nonce: str) -> str:
    """By hand: the library makes no such token."""
    _, claims, _ = identity.signed(nonce).split(".")
    signed = f"{part({'alg': 'HS256', 'kid': 'first'})}.{claims}"
    mac = hmac.digest(identity.key.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def foreign(identity: Identity, nonce: str) -> str:
    identity.key = rsa("first")
    return identity.signed(nonce)


def unknown(identity: Identity, nonce: str) -> str:
    identity.key = rsa("never-published")
    return identity.signed(nonce)


def carried(identity: Identity, nonce: str) -> str:
    """The token brings the key that it is signed by."""
    own = rsa("first")
    _, claims, _ = identity.signed(nonce).split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    header = {"alg": "RS256", "kid": "first", "jwk": own.as_dict(private=False)}
    return jwt.encode(header, said, own, algorithms=["RS256"])


def altered(identity: Identity, nonce: str) -> str:
    header, _, signature = identity.signed(nonce).split(".")
    _, claims, _ = identity.signed(nonce, groups=["sre"]).split(".")
    return f"{header}.{claims}.{signature}"


@pytest.mark.parametrize(
    "made",
    [
        unsigned,
        by_public_key,
        foreign,
        unknown,
        carried,
        altered,
        lambda *_: "a.b",
        lambda *_: "..",
        lambda *_: "x" * 70_000,
    ],
)
def test_a_token_that_the_provider_has_not_signed_lets_nobody_in(tmp_path: Path, made: Any) -> None:
    assert with_token(tmp_path, made) == "/#sign-in-token"


def test_each_algorithm_of_the_list_is_known(tmp_path: Path) -> None:
    async def go(key: Any, algorithm: str) -> str:
        async with signing_in(tmp_path) as (browser, identity, _):
            identity.key, identity.algorithm = key, algorithm
            identity.published = [key.as_dict(private=False)]
            return await browser.sign_in()

    ed = jwk.OKPKey.generate_key("Ed25519", parameters={"kid": "ed"})
    ec = jwk.ECKey.generate_key("P-256", parameters={"kid": "ec"})
    assert [asyncio.run(go(*each)) for each in ((ed, "EdDSA"), (ec, "ES256"))] == ["/", "/"]
    assert asyncio.run(go(rsa("big"), "PS256")) == "/#sign-in-token"


# -- keys ----------------------------------------------------------------------------------------------------


def test_new_keys_are_asked_for_and_not_more_often_than_they_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = [1_000_000]
    real = provider.Provider.__init__
    monkeypatch.setattr(
        provider.Provider, "__init__", lambda self, settings, _: real(self, settings, lambda: now_ms[0])
    )

    async def go() -> None:
        async with signing_in(tmp_path) as (browser, identity, _):
            former = identity.key
            assert (await browser.sign_in(), identity.keys_asked) == ("/", 1)
            identity.key = rsa("second")
            identity.published = [identity.key.as_dict(private=False)]
            for _ in range(3):
                assert (await browser.sign_in(), identity.keys_asked) == ("/#sign-in-token", 1)
            now_ms[0] += provider.KEYS_EVERY_MS
            assert (await browser.sign_in(), identity.keys_asked) == ("/", 2)
            identity.key = former
            assert (await browser.sign_in(), identity.keys_asked) == ("/#sign-in-token", 2)

    asyncio.run(go())


@pytest.mark.parametrize("padding", [0, provider.ANSWER_MAX_BYTES])
def test_keys_that_are_too_large_are_not_read(
    tmp_path: Path, padding: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> str:
        async with signing_in(tmp_path) as (browser, identity, _):
            identity.padding = padding
            return await browser.sign_in()

    assert asyncio.run(go()) == ("/#sign-in-provider" if padding else "/")
    assert ("larger than 262144 bytes" in logged(caplog)) == bool(padding)


def test_too_many_keys_and_weak_ones_are_not_taken(tmp_path: Path) -> None:
    async def go(published: list[dict[str, Any]], key: Any = None) -> str:
        async with signing_in(tmp_path) as (browser, identity, _):
            identity.key = key or identity.key
            identity.published += published
            return await browser.sign_in()

    spare = rsa("spare").as_dict(private=False)
    assert asyncio.run(go([{**spare, "kid": str(each)} for each in range(63)])) == "/"
    assert asyncio.run(go([{**spare, "kid": str(each)} for each in range(64)])) == "/#sign-in-token"
    weak = jwk.RSAKey.generate_key(1024, parameters={"kid": "weak"})
    assert asyncio.run(go([weak.as_dict(private=False)], weak)) == "/#sign-in-token"
    oct_key = jwk.OctKey.generate_key(256, parameters={"kid": "secret"})
    assert asyncio.run(go([oct_key.as_dict()])) == "/"


# -- states, codes and where they lead -----------------------------------------------------------------------


def test_a_code_that_was_used_lets_nobody_in(tmp_path: Path) -> None:
    async def go() -> list[str]:
        async with signing_in(tmp_path) as (browser, identity, client):
            authorize = await browser.begun()
            url, code, state = browser.url, identity.code(authorize), state_of(authorize)
            cookie = next(each.value for each in browser.session.cookie_jar if each.key == STATE_COOKIE)
            first = await browser.back(code, state)
            thief = Browser(client, identity)
            async with thief.session:
                thief.session.cookie_jar.update_cookies({STATE_COOKIE: cookie})
                again = await thief.back(code, state)
                # And with a state of its own: the provider gave the code to another verifier, and once.
                mine = await thief.begun()
                other = await thief.back(code, state_of(mine))
            assert url == thief.url
            return [first, again, other]

    assert asyncio.run(go()) == ["/", "/#sign-in-state", "/#sign-in-provider"]


def test_a_state_of_another_browser_lets_nobody_in(tmp_path: Path) -> None:
    now_ms = [WALL_MS]

    async def go() -> None:
        async with signing_in(tmp_path, lambda: now_ms[0]) as (browser, identity, client):
            other = Browser(client, identity)
            async with other.session:
                authorize = await browser.begun()
                code = identity.code(authorize)
                assert await other.back(code, state_of(authorize)) == "/#sign-in-state"  # no cookie
                await other.begun()
                assert await other.back(code, state_of(authorize)) == "/#sign-in-state"  # another's
                other.session.cookie_jar.update_cookies({STATE_COOKIE: f"e30.{'0' * 64}"})
                assert await other.back(code, state_of(authorize)) == "/#sign-in-state"  # forged
            assert await browser.back(code, "guessed") == "/#sign-in-state"
            mixed = await browser.back(code, state_of(authorize), iss="https://id.example.com")
            assert mixed == "/#sign-in-token"
            now_ms[0] += 600_000
            assert await browser.back(code, state_of(authorize)) == "/#sign-in-state"  # too late

    asyncio.run(go())


def test_what_the_provider_refuses_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> str:
        async with signing_in(tmp_path) as (browser, _, _):
            state = state_of(await browser.begun())
            answer = await browser.ask("/sign_in/callback", params={"error": "access_denied", "state": state})
            return answer.headers["Location"]

    assert asyncio.run(go()) == "/#sign-in-denied"
    assert "access_denied" in logged(caplog)


@pytest.mark.parametrize(
    "to",
    ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "", "/\t/evil.example", "/a\nb", "javascript:alert(1)", "/" + "a" * 2_000],
)  # fmt: skip
def test_nobody_is_led_to_another_site(tmp_path: Path, to: str) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, _, _):
            answer = await browser.ask("/sign_in", params={"to": to})
            assert (answer.status, "Location" in answer.headers) == (400, False)

    asyncio.run(go())


def test_a_full_table_takes_nobody_and_ends_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = [WALL_MS]
    real = sessions.PersonSessions.__init__
    monkeypatch.setattr(sessions.PersonSessions, "__init__", lambda self, _: real(self, 0, 2, 2))

    async def go() -> None:
        async with signing_in(tmp_path, lambda: now_ms[0]) as (browser, identity, client):
            others = [Browser(client, identity) for _ in range(3)]
            try:
                # The oldest of one's own gives way; another's does not.
                assert [await each.sign_in() for each in (browser, *others[:2])] == ["/", "/", "/"]
                assert [await each.status() for each in (browser, *others[:2])] == [401, 200, 200]
                identity.claims = {"sub": "bob-1"}
                assert await others[2].sign_in() == "/#sign-in-full"
                assert [await each.status() for each in others] == [200, 200, 401]
                now_ms[0] += 43_200_000
                identity.claims |= {"iat": now_ms[0] // 1_000, "exp": now_ms[0] // 1_000 + 60}
                assert await others[2].sign_in() == "/"
            finally:
                for each in others:
                    await each.session.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    "later", [{"email": "ada@other.example"}, {"email_verified": False}, {"email": None}]
)
def test_a_person_is_nobody_else_after_another_sign_in(tmp_path: Path, later: dict[str, Any]) -> None:
    async def go() -> list[str]:
        async with signing_in(tmp_path) as (browser, identity, client):
            other = Browser(client, identity)
            async with other.session:
                await browser.sign_in()
                identity.claims = later
                await other.sign_in()
                return [(await (await each.ask(READ)).json())["token"] for each in (browser, other)]

    assert asyncio.run(go()) == ["person/ada@example.com"] * 2


def test_an_address_counts_as_a_name_only_where_it_is_verified(tmp_path: Path) -> None:
    async def go(**claims: Any) -> str:
        async with signing_in(tmp_path) as (browser, identity, _):
            identity.claims = claims
            await browser.sign_in()
            return str((await (await browser.ask(READ)).json())["token"])

    assert asyncio.run(go()) == "person/ada@example.com"
    assert asyncio.run(go(email_verified=False)) == "person/ada-1"
    assert asyncio.run(go(email="a\nb")).startswith("person/") is True
    assert "\n" not in asyncio.run(go(email="a\nb"))
