"""Signing in and out over HTTP: OpenID Connect's authorization code, with PKCE.

It must keep nothing of a browser that has not signed in: what a sign-in needs is in a signed cookie of that browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from aiohttp import web

from schemas.escaping import visible
from streams.config.serving import SignInSettings
from streams.errors import WrongUseError
from streams.web.encode import NOT_KEPT, json_answer
from streams.web.errors import ApiError
from streams.web.parameters import parameters
from streams.web.scopes import Scope
from streams.web.security import RequestGuard
from streams.web.sign_in.people import PERSON_COOKIE, People, groups_of, is_own_page
from streams.web.sign_in.recheck import SessionRecheck
from streams.web.sign_in.sessions import Person, PersonSession, SignInError

if TYPE_CHECKING:
    from streams.web.sign_in.provider import Provider

logger = logging.getLogger(__name__)

STATE_COOKIE: Final = "trainfare_sign_in"
_PATH: Final = "/sign_in"
_CALLBACK: Final = "/sign_in/callback"
_PENDING_S: Final = 600
#: Of states that a session was given for: as many as sessions in the time that a state is good for.
_USED_MAX: Final = 10_000
_NAMES_MAX: Final = 100_000
_GIVEN_MAX_CHARS: Final = 4_096
#: A path of this server: a second slash, or a backslash, would lead to another.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1000}", re.ASCII)
_OFF: Final = "nobody signs in at this worker (sign_in.issuer is not set)"


class _PendingSignIn(msgspec.Struct, frozen=True):
    """What the browser keeps until it comes back."""

    state: str
    nonce: str
    verifier: str
    to: str
    until_s: int


class SignInEndpoint:
    """The handlers; without `people` or an issuer nobody signs in.

    Raises:
        WrongUseError: The library that knows tokens is not installed.
    """

    def __init__(
        self,
        settings: SignInSettings,
        people: People | None,
        guard: RequestGuard,
        public_url: str,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._settings, self._people, self._guard = settings, people, guard
        self._public_url, self._wall_ms = public_url.rstrip("/"), wall_ms
        self._key = secrets.token_bytes(32)
        self._used: OrderedDict[str, None] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()  # by the provider's own name of a person
        self._provider = _provider(settings, now_ms) if people is not None and settings.issuer else None
        #: What asks again about those who are signed in; None: nobody is asked.
        self.recheck = None
        if people is not None and self._provider is not None and settings.recheck_ms:
            self.recheck = SessionRecheck(settings, people, self._provider, wall_ms)

    async def state(self, request: web.Request) -> web.Response:
        """Whether people sign in here, and who has, by this browser's cookie."""
        parameters(request, set())
        cookie = request.cookies.get(PERSON_COOKIE, "")
        found: dict[str, Any] = {"path": _PATH if self._provider else None, "name": None, "scopes": []}
        if self._people is not None:
            caller = self._people.of_cookie(cookie, request.remote or "", request.headers) if cookie else None
            if caller is not None:
                found |= {
                    "name": caller.token.partition("/")[2],
                    "scopes": [each for each in Scope if caller.has(each)],
                    "until_ms": caller.until_ms,
                }
        return json_answer(found)

    async def begin(self, request: web.Request) -> web.Response:
        """Lead a browser to the identity provider.

        Raises:
            ApiError: Nobody signs in here, or it is to come back to another site.
            HTTPSeeOther: It is led there, or back to the page with the reason.
        """
        provider = self._known()
        to = parameters(request, {"to"}).get("to", "/")
        if not _OWN_PATH.fullmatch(to):
            raise ApiError(400, "to: expected a path of this page, like /#/budgets", field="to")
        now_s = self._wall_ms() // 1_000
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect,
            "scope": self._settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        try:
            authorize = await provider.authorize_url()
        except SignInError as fault:
            raise self._refused(request, fault.code, str(fault)) from fault
        leave = web.HTTPSeeOther(
            f"{authorize}{'&' if urlsplit(authorize).query else '?'}{urlencode(asked, quote_via=quote)}",
            headers=NOT_KEPT,
        )
        pending = self._signed(_PendingSignIn(state, nonce, verifier, to, now_s + _PENDING_S))
        self._set_cookie(request, leave, STATE_COOKIE, pending, _CALLBACK, _PENDING_S)
        raise leave

    async def callback(self, request: web.Request) -> web.Response:
        """Take a browser back from the identity provider, and let it in.

        Raises:
            ApiError: Nobody signs in here, or a parameter comes twice.
            HTTPSeeOther: It is led to where it began, or to the page with the reason.
        """
        provider, people = self._known(), self._people
        assert people is not None
        given = _given(request)
        pending = self._pending(request.cookies.get(STATE_COOKIE, ""))
        if pending is None or not hmac.compare_digest(
            given.get("state", "").encode("utf-8", "surrogateescape"), pending.state.encode()
        ):
            raise self._refused(request, "state", "it did not begin in this browser, within ten minutes")
        if pending.state in self._used:
            raise self._refused(request, "state", "it was used before")
        if given.get("iss", self._settings.issuer) != self._settings.issuer:
            raise self._refused(request, "token", "iss: another issuer answered than sign_in.issuer")
        if "error" in given or "code" not in given:
            reason = f"the provider says {visible(given.get('error', 'neither a code nor an error')[:100])}"
            raise self._refused(request, "denied", reason)
        wall_ms = self._wall_ms()
        try:
            claims, renewal = await provider.claims(
                given["code"], pending.verifier, self._redirect, pending.nonce, wall_ms // 1_000
            )
            person = self._person(people, claims)
            former = self._session(request)
            cookie = people.sessions.begin(person, wall_ms + people.session_ms, wall_ms, renewal)
        except (SignInError, ApiError) as fault:
            raise self._refused(request, fault.code, str(fault)) from fault
        if former is not None:  # its cookie, and the rights that came with it, end here
            self._end(former)
        self._used[pending.state] = None
        if len(self._used) > _USED_MAX:
            self._used.popitem(last=False)
        if self.recheck is not None and not renewal.is_possible:
            logger.warning(
                "the identity provider gives no way to ask again who is signed in; the session is short",
                extra={
                    "person": person.name,
                    "ends_after_ms": self._settings.recheck_ms,
                    "runbook": "docs/sign_in.md#changed-groups",
                },
            )
        roles = ", ".join(sorted(person.granted.roles))
        logger.info("signed in", extra={"person": person.name, "roles": roles})
        leave = web.HTTPSeeOther(pending.to, headers=NOT_KEPT)
        self._set_cookie(request, leave, PERSON_COOKIE, cookie, "/", people.session_ms // 1_000)
        leave.del_cookie(STATE_COOKIE, path=_CALLBACK)
        raise leave

    async def end(self, request: web.Request) -> web.Response:
        """Sign out of this worker; the provider's own session goes on.

        Raises:
            ApiError: Another page than the worker's own asks.
        """
        parameters(request, set())
        found = self._session(request)
        if found is not None:
            if not is_own_page(request.headers):
                raise ApiError(403, "the page signs out, and no other page or program does", "origin_refused")
            self._end(found)
        response = json_answer({"signed_out": True})
        response.del_cookie(PERSON_COOKIE, path="/")
        return response

    def _session(self, request: web.Request) -> PersonSession | None:
        """The session of this browser's cookie, if it goes on."""
        if self._people is None:
            return None
        return self._people.sessions.of(request.cookies.get(PERSON_COOKIE, ""), self._wall_ms())

    def _end(self, session: PersonSession) -> None:
        if self._people is not None:
            self._people.sessions.end(session.hashed)

    @property
    def _redirect(self) -> str:
        return f"{self._public_url}{_CALLBACK}"

    def _known(self) -> Provider:
        if self._provider is None:
            raise ApiError(404, _OFF, "sign_in_off")
        return self._provider

    def _person(self, people: People, claims: Mapping[str, Any]) -> Person:
        subject, claim = claims["sub"], self._settings.name_claim
        name = claims.get(claim)
        if not isinstance(name, str) or (claim == "email" and claims.get("email_verified") is not True):
            name = subject
        # By another name the same person would be the second one of two.
        name = self._names.setdefault(subject, name)
        self._names.move_to_end(subject)
        if len(self._names) > _NAMES_MAX:
            self._names.popitem(last=False)
        return people.person(subject, name, groups_of(claims, self._settings.groups_claim))

    def _refused(self, request: web.Request, code: str, reason: str) -> web.HTTPSeeOther:
        """Lead back to the page, which says why in words; the log says it exactly."""
        logger.warning(
            "sign-in refused",
            extra={
                "code": code,
                "reason": reason,
                "address": request.remote or "",
                "runbook": "docs/sign_in.md#refused",
            },
        )
        return web.HTTPSeeOther(f"/#sign-in-{code}", headers=NOT_KEPT)

    def _set_cookie(
        self, request: web.Request, response: web.HTTPException, name: str, value: str, path: str, age_s: int
    ) -> None:
        response.set_cookie(
            name,
            value,
            httponly=True,
            # Not Strict: the browser comes from the provider's page, and must show it there.
            samesite="Lax",
            secure=self._guard.is_private(request.remote or "", request.headers, is_tls=request.secure),
            path=path,
            max_age=age_s,
        )

    def _signed(self, pending: _PendingSignIn) -> str:
        body = base64.urlsafe_b64encode(msgspec.json.encode(pending)).rstrip(b"=").decode()
        return f"{body}.{hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()}"

    def _pending(self, cookie: str) -> _PendingSignIn | None:
        body, _, mac = cookie.partition(".")
        if len(cookie) > _GIVEN_MAX_CHARS or not cookie.isascii():
            return None
        expected = hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(mac.encode(), expected.encode()):
            return None
        found = msgspec.json.decode(
            base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_PendingSignIn
        )
        return found if found.until_s > self._wall_ms() // 1_000 else None


def _given(request: web.Request) -> dict[str, str]:
    """The parameters that the provider sent, each once; it may send others beside them."""
    found = {}
    for name in ("code", "state", "error", "iss"):
        values = request.query.getall(name, [])
        if len(values) > 1 or any(len(each) > _GIVEN_MAX_CHARS for each in values):
            raise ApiError(400, f"{name}: expected one of {_GIVEN_MAX_CHARS} characters at most", field=name)
        if values:
            found[name] = values[0]
    return found


def _provider(settings: SignInSettings, now_ms: Callable[[], int]) -> Provider:
    try:
        from streams.web.sign_in.provider import Provider as Made
    except ImportError as fault:
        raise WrongUseError(
            f"sign_in.issuer needs {fault.name}, which is not installed: pip install 'trainfare[oidc]'"
        ) from fault
    return Made(settings, now_ms)
