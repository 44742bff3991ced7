"""Asks the identity provider: where it is asked, for its keys, for the token of a code, and later again who a person is.

It must not follow a redirect, read an answer without a limit, or ask for keys as often as others like.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp
import orjson

from schemas.escaping import visible
from streams.config.live import is_loopback
from streams.config.serving import SignInSettings
from streams.errors import why_no_answer
from streams.web.sign_in.id_token import (
    TOKEN_MAX_CHARS,
    ExpectedToken,
    Keys,
    UnknownKeyError,
    checked,
    keys_of,
)
from streams.web.sign_in.sessions import Renewal, SignInError

ANSWER_MAX_BYTES: Final = 2**18
_WITHIN_S: Final = 10.0
#: How long what it says of itself is used; a key that it takes back is refused after this at the latest.
_FRESH_MS: Final = 600_000
#: After a failure others fail at once, instead of waiting for it one after another.
_AGAIN_MS: Final = 2_000
#: Between two requests for keys, whatever tokens come.
KEYS_EVERY_MS: Final = 30_000
_CONCURRENT: Final = 4
_WAITING_MAX: Final = 64


class ProviderError(SignInError):
    """The provider did not answer as it must."""

    code = "provider"


class ProviderStatusError(ProviderError):
    """It answered with another status than 200; `error` is OAuth's name of the fault, if it gave one."""

    def __init__(self, where: str, status: int, error: str) -> None:
        super().__init__(f"{where}: it answered {status}{f' ({visible(error)})' if error else ''}")
        self.status, self.error = status, error


class NoLongerVouchedError(SignInError):
    """The provider does not say any more who a person is: the session ends."""

    code = "denied"


@dataclass(frozen=True)
class _ProviderFacts:
    """What the provider says of itself."""

    authorize: str
    token: str
    keys: str
    userinfo: str  # '': it has none
    is_secret_posted: bool
    at_ms: int


class Provider:
    """One identity provider."""

    def __init__(self, settings: SignInSettings, now_ms: Callable[[], int]) -> None:
        self._settings, self._now_ms = settings, now_ms
        self._is_plain = settings.issuer.startswith("http://")
        self._tls = None if settings.ca_location is None else ssl.create_default_context(cafile=str(settings.ca_location))  # fmt: skip
        self._said: _ProviderFacts | None = None
        self._failed_ms: int | None = None
        self._keys: Keys = {}
        self._keys_ms: int | None = None
        self._asking = asyncio.Semaphore(_CONCURRENT)
        self._one = asyncio.Lock()
        self._waiting = 0

    async def authorize_url(self) -> str:
        """Where a browser is sent.

        Raises:
            ProviderError: It did not say.
        """
        return (await self._discovered()).authorize

    async def claims(
        self, code: str, verifier: str, redirect: str, nonce: str, now_s: int
    ) -> tuple[Mapping[str, Any], Renewal]:
        """What the provider says of the person for whom it gave a code, and how to ask again.

        Raises:
            ProviderError: It gave no token.
            TokenRefusedError: The token is wrong.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        said = await self._discovered()
        answer = await self._tokens(said, form)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("its answer to a code has no id_token")
        claims = await self._checked(
            said, token, ExpectedToken(self._settings.issuer, self._settings.client_id, nonce), now_s
        )
        return claims, _renewal(answer, Renewal(nonce), may_ask=bool(said.userinfo))

    async def claims_now(
        self, subject: str, renewal: Renewal, now_s: int
    ) -> tuple[Mapping[str, Any], Renewal]:
        """What the provider says now of a person who signed in before, and how to ask the next time.

        Raises:
            NoLongerVouchedError: It refused, or spoke of somebody else.
            ProviderError: It did not answer.
            TokenRefusedError: The token is wrong.
        """
        said = await self._discovered()
        try:
            claims, renewal = await self._said_now(said, renewal, now_s)
        except ProviderStatusError as fault:
            # What is wrong with this worker at the provider says nothing of a person.
            if fault.status not in (400, 401, 403) or fault.error == "invalid_client":
                raise
            raise NoLongerVouchedError(str(fault)) from fault
        except UnknownKeyError as fault:
            raise ProviderError(str(fault)) from fault  # a new key is taken soon
        if claims.get("sub") != subject:
            raise NoLongerVouchedError("sub: it speaks of somebody else")
        return claims, renewal

    async def _said_now(
        self, said: _ProviderFacts, renewal: Renewal, now_s: int
    ) -> tuple[Mapping[str, Any], Renewal]:
        settings = self._settings
        if renewal.refresh_token:
            form = {"grant_type": "refresh_token", "refresh_token": renewal.refresh_token}
            answer = await self._tokens(said, form)
            renewal = _renewal(answer, renewal, may_ask=bool(said.userinfo))
            token = answer.get("id_token")
            if isinstance(token, str):
                expected = ExpectedToken(settings.issuer, settings.client_id, renewal.nonce, is_renewed=True)
                return await self._checked(said, token, expected, now_s), renewal
        if not said.userinfo or not renewal.access_token:
            raise NoLongerVouchedError("it gave neither an id_token nor a way to ask (userinfo)")
        headers = {"Authorization": f"Bearer {renewal.access_token}"}
        return await self._ask("GET", said.userinfo, headers=headers), renewal

    async def _tokens(self, said: _ProviderFacts, form: dict[str, str]) -> Mapping[str, Any]:
        settings, headers = self._settings, {}
        form = {**form, "client_id": settings.client_id}
        if settings.client_secret is not None:
            secret = settings.client_secret.get_secret_value()
            if said.is_secret_posted:
                form["client_secret"] = secret
            else:
                user = quote(settings.client_id, safe="")
                headers["Authorization"] = aiohttp.encode_basic_auth(user, quote(secret, safe=""))
        return await self._ask("POST", said.token, data=form, headers=headers)

    async def _checked(
        self, said: _ProviderFacts, token: str, expected: ExpectedToken, now_s: int
    ) -> Mapping[str, Any]:
        try:
            return checked(token, await self._current_keys(said, is_new=False), expected, now_s)
        except UnknownKeyError:
            return checked(token, await self._current_keys(said, is_new=True), expected, now_s)

    async def _discovered(self) -> _ProviderFacts:
        async with self._one:
            said, now_ms = self._said, self._now_ms()
            if said is not None and now_ms - said.at_ms < _FRESH_MS:
                return said
            if self._failed_ms is not None and now_ms - self._failed_ms < _AGAIN_MS:
                raise ProviderError("it has just failed to answer")
            self._failed_ms = now_ms
            issuer = self._settings.issuer
            found = await self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != issuer:
                raise ProviderError("it names another issuer than sign_in.issuer")
            methods = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            self._said = _ProviderFacts(
                self._address(found, "authorization_endpoint"),
                self._address(found, "token_endpoint"),
                self._address(found, "jwks_uri"),
                self._address(found, "userinfo_endpoint") if found.get("userinfo_endpoint") else "",
                isinstance(methods, list)
                and "client_secret_basic" not in methods
                and "client_secret_post" in methods,
                now_ms,
            )
            self._failed_ms = None
            return self._said

    def _address(self, found: Mapping[str, Any], name: str) -> str:
        text = found.get(name)
        split = urlsplit(text) if isinstance(text, str) and len(text) <= 2_000 else None
        is_local = split is not None and self._is_plain and is_loopback(split.hostname or "")
        if split is None or not (split.scheme == "https" or (split.scheme == "http" and is_local)):
            raise ProviderError(f"its {name} is no https address")
        return split.geturl()

    async def _current_keys(self, said: _ProviderFacts, *, is_new: bool) -> Keys:
        """The provider's keys; a token of an unknown one has them asked for anew, at most once in `KEYS_EVERY_MS`."""
        async with self._one:
            now_ms = self._now_ms()
            age_ms = _FRESH_MS if self._keys_ms is None else now_ms - self._keys_ms
            if age_ms >= (KEYS_EVERY_MS if is_new else _FRESH_MS):
                # First, so that a failure neither keeps keys for longer nor is repeated sooner.
                self._keys, self._keys_ms = {}, now_ms
                self._keys = keys_of(await self._ask("GET", said.keys))
            return self._keys

    async def _ask(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        if self._waiting >= _WAITING_MAX:
            raise ProviderError(f"{_WAITING_MAX} requests wait for it already")
        self._waiting += 1
        try:
            async with self._asking:
                return await self._asked(method, url, **options)
        finally:
            self._waiting -= 1

    async def _asked(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        where = urlsplit(url).path
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_WITHIN_S)) as session,
                session.request(
                    method, url, allow_redirects=False, ssl=self._tls or True, **options
                ) as answer,
            ):
                body = bytearray()
                async for chunk in answer.content.iter_chunked(16_384):
                    body += chunk
                    if len(body) > ANSWER_MAX_BYTES:
                        raise ProviderError(f"{where}: its answer is larger than {ANSWER_MAX_BYTES} bytes")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as fault:
            raise ProviderError(f"{where}: no answer ({why_no_answer(fault)})") from fault
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        if answer.status != 200:
            error = found.get("error") if isinstance(found, dict) else None
            raise ProviderStatusError(where, answer.status, error[:100] if isinstance(error, str) else "")
        if not isinstance(found, dict):
            raise ProviderError(f"{where}: its answer is no JSON object")
        return found


def _renewal(answer: Mapping[str, Any], before: Renewal, *, may_ask: bool) -> Renewal:
    """How to ask again after an answer with tokens; a refresh token that is not replaced stays good."""
    refresh, access = (
        value if isinstance(value := answer.get(name), str) and len(value) <= TOKEN_MAX_CHARS else ""
        for name in ("refresh_token", "access_token")
    )
    return Renewal(before.nonce, refresh or before.refresh_token, access if may_ask else "")
