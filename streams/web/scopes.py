"""Tokens and the scopes that each grants; a session of the page has those of its token."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import SecretStr

from streams.config.live import WebSettings


class Scope(StrEnum):
    """A permission that a token grants."""

    METRICS = "metrics"
    READ = "read"
    QUERY = "query"
    WRITE = "write"


ALL: Final = frozenset(Scope)
#: Scopes of everybody on a loopback address while no token is set.
OPEN_ON_LOOPBACK: Final = frozenset({Scope.METRICS, Scope.READ})
#: The content of the page's cookie: the second in which it ends, and a MAC of it.
SESSION_FORM: Final = re.compile(r"([0-9]{1,12})\.([0-9a-f]{64})", re.ASCII)
LOCAL_NAME: Final = "local token"


@dataclass(frozen=True)
class Caller:
    """The client: the token it presented, and its address."""

    address: str
    token: str = ""  # name of its setting; empty: none was presented
    scopes: frozenset[Scope] = frozenset()
    until_ms: int | None = None  # when its session ends; None: a token has no end


@dataclass(frozen=True)
class Session:
    """A session of the page: the content of its cookie, and when it ends."""

    cookie: str
    until_ms: int


@dataclass(frozen=True)
class _Known:
    name: str
    scopes: frozenset[Scope]
    token: bytes  # digest
    session_key: bytes  # derived from the token, which cannot be recovered from it


class Tokens:
    """The tokens of one worker."""

    def __init__(self, settings: WebSettings, local_token: str | None) -> None:
        self._key = secrets.token_bytes(32)
        self._known = [
            _Known(name, scopes, self._digest(token), _session_key(token))
            for name, scopes, token in _all(settings, local_token)
        ]

    def __bool__(self) -> bool:
        return bool(self._known)

    def grant(self, scope: Scope) -> bool:
        """Whether any token has this scope."""
        return any(scope in each.scopes for each in self._known)

    def of_token(self, given: str, address: str) -> Caller | None:
        """The caller with this token; None if it is unknown."""
        digest = self._digest(given)
        # All are compared, so that the time does not reveal which one matched.
        found = [each for each in self._known if hmac.compare_digest(digest, each.token)]
        return Caller(address, found[0].name, found[0].scopes) if found else None

    def of_session(self, given: str, address: str) -> Caller | None:
        """The caller with this page session, whether it has ended or not; None if it is unknown.

        It may only read, whatever its token allows: a browser sends its cookies to every port of a host, and so to
        servers of other users of this machine.
        """
        match = SESSION_FORM.fullmatch(given)
        if match is None:
            return None
        until_s, shown = int(match[1]), self._digest(match[2])
        found = [
            each
            for each in self._known
            if hmac.compare_digest(shown, self._digest(_session_mac(each.session_key, until_s)))
        ]
        if not found:
            return None
        return Caller(address, found[0].name, found[0].scopes & {Scope.READ}, until_s * 1_000)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), "sha256")


def session_of(token: str, until_ms: int) -> Session:
    """A session of a token; all workers with the token know it, and none keeps it."""
    until_s = until_ms // 1_000
    return Session(f"{until_s}.{_session_mac(_session_key(token), until_s)}", until_s * 1_000)


def _session_key(token: str) -> bytes:
    return hmac.digest(token.encode("utf-8", "surrogateescape"), b"trainfare page", "sha256")


def _session_mac(key: bytes, until_s: int) -> str:
    return hmac.new(key, str(until_s).encode(), hashlib.sha256).hexdigest()


def _all(settings: WebSettings, local_token: str | None) -> Iterator[tuple[str, frozenset[Scope], str]]:
    for name, token in settings.tokens().items():
        # web.token has all scopes; the others are named after theirs.
        scopes = ALL if name == "token" else frozenset({Scope(name.removesuffix("_token"))})
        yield f"web.{name}", scopes, _text(token)
    if local_token is not None:
        yield LOCAL_NAME, ALL, local_token


def _text(token: SecretStr) -> str:
    return token.get_secret_value()
