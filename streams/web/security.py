"""Who may ask: the token, the Host header of a loopback address, requests that other sites make a browser send.

It must not let a secret into an answer, a log line or a comparison that takes as long as it is right.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from streams.config_live import WebSettings, is_loopback
from streams.errors import WrongUseError
from streams.web.errors import ApiError

COOKIE: Final = "trainfare_session"
_OPEN: Final = frozenset({"/healthz", "/readyz"})
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "trainfare",
}


def check_bind(settings: WebSettings) -> None:
    """Refuse an address that others can reach while nobody is asked who they are."""
    if not is_loopback(settings.bind) and not _token_of(settings):
        raise WrongUseError(
            f"web.bind {settings.bind} can be reached by others: set web.token too (TRAINFARE_WEB_TOKEN), "
            "or bind to 127.0.0.1"
        )


def is_open(path: str) -> bool:
    """Whether a path needs no token: health, and the page, which holds no figures."""
    return path in _OPEN or not is_data(path)


def is_data(path: str) -> bool:
    """Whether a path answers with figures."""
    return path in ("/metrics", "/audit") or path.startswith("/api/")


class Guard:
    """The rules of one server, resolved from its settings."""

    def __init__(self, settings: WebSettings) -> None:
        self._token = _token_of(settings)
        self._hosts = _LOCAL_NAMES | {_bare(settings.bind)} if is_loopback(settings.bind) else None
        self.session = _session(self._token) if self._token else ""

    def check_host(self, host: str) -> None:
        """On a loopback address, refuse names that somebody else's DNS may have pointed here."""
        if self._hosts is not None and _host_name(host) not in self._hosts:
            raise ApiError(403, "the Host header names another host; ask for localhost", "host_refused")

    def check_origin(self, path: str, headers: Mapping[str, str]) -> None:
        """Refuse what a page of another site makes a browser ask; other programs send neither header."""
        if not is_data(path):
            return
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("Host"):
            raise ApiError(403, "another site's page may not ask this", "origin_refused")
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise ApiError(403, "another site's page may not ask this", "origin_refused")

    def check_token(self, path: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        """Ask for the token where one is set."""
        if not self._token or is_open(path):
            return
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return
        if _same(cookies.get(COOKIE, ""), self.session):
            return
        raise ApiError(401, "show the worker's token (web.token): Authorization: Bearer ...")

    @property
    def asks_for_token(self) -> bool:
        """Whether a token is set."""
        return bool(self._token)

    def is_token(self, given: str) -> bool:
        """Whether it is the token, in a time that does not tell how much of it is right."""
        return bool(self._token) and _same(given, self._token)


def _session(token: str) -> str:
    """What the cookie holds: made from the token, and of no use to find it."""
    return hmac.new(token.encode(), b"trainfare page", hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _token_of(settings: WebSettings) -> str:
    return settings.token.get_secret_value() if settings.token is not None else ""


def _bare(host: str) -> str:
    return host.strip("[]").lower()


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
