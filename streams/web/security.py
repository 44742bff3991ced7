"""Authorises requests: tokens and scopes, the Host header on loopback, and cross-site requests.

It must not let a secret into a response or a log line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from schemas.events import ControlEvent
from schemas.reasons import Reason
from streams.config.live import WebSettings, is_loopback
from streams.errors import WrongUseError
from streams.web.address import group_of, is_one_of, proxies_of
from streams.web.errors import ApiError
from streams.web.scopes import (
    ISSUED,
    OPEN_ON_LOOPBACK,
    SESSION_FORM,
    Caller,
    EndedTokenError,
    IssuedRecords,
    IssuedTokens,
    Scope,
    Session,
    Tokens,
    TokensNotReadError,
)
from streams.web.sign_in.people import PERSON_COOKIE, People
from streams.web.token_guesses import TokenGuesses

COOKIE: Final = "trainfare_session"
#: Delay of each response to a repeated guess; the number of connections of an address is limited.
GUESS_DELAY_S: Final = 1.0
FOREVER_MS: Final = 2**53
WRITE_OFF: Final = (
    "nothing may be written: no token has the scope {scope}; set web.write_token (TRAINFARE_WEB_WRITE_TOKEN), or issue one: "
    "trainfare tokens create"
)
#: What no session and no loopback address is enough for.
_WRITING: Final = frozenset({Scope.INGEST, Scope.ACT, Scope.LIMIT})
#: Where a token that is bound to teams, owners, sources, ids or topics holds: these judge what is named. Every other path is
#: for all that there is.
OF_BOUND: Final = frozenset(
    {
        "/api/v1/events",
        "/v1/traces",
        "/v1/metrics",
        "/api/v1/controls",
        "/api/v1/approvals",
        "/api/v1/sources",
        "/api/v1/whoami",
    }
)
#: Where a bound to teams holds: what is answered is made of rows of these teams alone.
BY_TEAM: Final = frozenset(
    {
        "/api/v1/jobs",
        *(
            f"/api/v1/{job}{below}"
            for job in ("jobs/{job_id}", "job")
            for below in ("", "/explain", "/rules", "/similar", "/elsewhere", "/receipt")
        ),
        "/api/v1/burn",
        "/api/v1/clock",
        "/api/v1/stream",
        "/api/v1/session",
        "/api/v1/costs",
        "/api/v1/costs/month",
        "/api/v1/costs/span",
        "/api/v1/forecast",
        "/api/v1/coverage",
        "/api/v1/savings",
        "/api/v1/carbon",
        "/api/v1/dashboards",
        "/api/v1/dashboards/{name}",
        "/api/v1/panels/{name}",
        "/api/v1/alerts",
        "/api/v1/alerts/{alert_id}",
        "/api/v1/alerts/{alert_id}/why",
        "/api/v1/alerts/{alert_id}/margins",
        "/api/v1/alerts/{alert_id}/before",
        "/api/v1/budgets",
        "/api/v1/budgets/detail",
        "/api/v1/headroom",
        "/api/v1/experiments",
        "/api/v1/experiments/{name}",
        "/api/v1/tables",
        "/api/v1/query",
    }
)
#: What a path needs: a scope, one of several, or nothing.
Needed: TypeAlias = Scope | frozenset[Scope] | None
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


def check_bind(settings: WebSettings, *, people_sign_in: bool = False) -> None:
    """Check the listening address.

    Raises:
        WrongUseError: Others can reach it, and no token is set.
    """
    is_closed = settings.tokens() or settings.require_token or people_sign_in
    if not is_loopback(settings.bind) and not is_closed:
        raise WrongUseError(
            f"web.bind {settings.bind} can be reached by others: set web.token too (TRAINFARE_WEB_TOKEN), "
            "or web.require_token = true where tokens are issued (trainfare tokens), or bind to 127.0.0.1"
        )


def is_data(path: str) -> bool:
    """Whether a path serves figures."""
    return path in ("/metrics", "/audit") or path.startswith("/api/")


class RequestGuard:
    """The rules of one server, resolved from its settings.

    Args:
        settings: The listening address and the tokens.
        local_token: A token with all scopes beside those of the settings; None: there is none.
        now_ms: A monotonic clock.
        wall_ms: The time of day, by which sessions of the page end, and issued tokens.
        issued: The records of issued tokens.
        filed: Those of a file.
        people: Who signs in; None: nobody.
    """

    def __init__(
        self,
        settings: WebSettings,
        local_token: str | None,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int] = lambda: 0,
        issued: IssuedRecords = dict,
        filed: Mapping[bytes, ControlEvent] | None = None,
        people: People | None = None,
    ) -> None:
        self._people = people
        self._tokens = Tokens(settings, local_token, IssuedTokens(issued, filed or {}), wall_ms)
        self._hosts = _LOCAL_NAMES | {_bare(settings.bind)} if is_loopback(settings.bind) else None
        is_closed = settings.tokens() or settings.require_token or self._hosts is None or people is not None
        self._open = frozenset[Scope]() if is_closed else OPEN_ON_LOOPBACK
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._session_ms = settings.session_ms
        self._proxies = proxies_of(settings.trusted_proxies)
        self._public = urlsplit(settings.public_url)
        self.guesses = TokenGuesses()

    @property
    def may_write(self) -> bool:
        """Whether any token, or anybody who signs in, may act or limit."""
        return self._people is not None or self._tokens.grant(Scope.ACT, Scope.LIMIT)

    @property
    def issued(self) -> IssuedTokens:
        """The issued tokens."""
        return self._tokens.issued

    @property
    def session_s(self) -> int:
        """Return for how long a browser keeps the page's cookie."""
        return self._session_ms // 1_000

    def check_host(self, host: str) -> None:
        """Check the Host header on a loopback address: another name may come from DNS rebinding.

        Raises:
            ApiError: The header names another host.
        """
        if self._hosts is not None and _host_name(host) not in self._hosts:
            raise ApiError(403, "the Host header names another host; ask for localhost", "host_refused")

    def check_origin(self, path: str, headers: Mapping[str, str]) -> None:
        """Check that no page of another site caused the request; other programs send neither header.

        Raises:
            ApiError: The request is cross-site.
        """
        if not is_data(path):
            return
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("Host"):
            raise ApiError(403, "another site's page may not ask this", "origin_refused")
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise ApiError(403, "another site's page may not ask this", "origin_refused")

    def caller(
        self,
        needed: Needed,
        remote: str,
        headers: Mapping[str, str],
        cookies: Callable[[], Mapping[str, str]],
        path: str = "",
    ) -> Caller:
        """The client; `path` is the route's.

        `needed` None: the path is open to all, whatever token is presented; a wrong one is counted anyway.

        Raises:
            ApiError: The client does not have the scope.
        """
        address = group_of(remote)
        scopes = frozenset({needed}) if isinstance(needed, Scope) else needed
        is_off = self._people is None and scopes is not None and not self._tokens.grant(*scopes)
        if is_off and scopes is not None and scopes <= _WRITING:
            raise ApiError(403, WRITE_OFF.format(scope=_named(scopes)), "acting_off")
        # An issued token closes what is open on loopback, as one of the settings does.
        open_now = frozenset[Scope]() if self._tokens.issued.are_some else self._open
        is_open = scopes is None or scopes <= open_now
        caller, is_wrong = self._shown(address, headers, cookies, is_open=is_open)
        wait_s = self.guesses.wrong(address, self._now_ms()) if is_wrong else 0
        if is_open or scopes is None:
            return caller
        if wait_s:
            raise _too_many_guesses(wait_s)
        if not caller.token:
            sign_in = "" if self._people is None else "sign in by the page, or "
            raise ApiError(
                401,
                f"{sign_in}show a token with the scope {_named(scopes)}: Authorization: Bearer ...; it is web.token of the worker, "
                "or in the file `token` of its data directory",
            )
        try:
            self._check_scopes(caller, scopes, path)
        except ApiError as fault:
            fault.refused = caller
            raise
        return caller

    @staticmethod
    def _check_scopes(caller: Caller, scopes: frozenset[Scope], path: str) -> None:
        own = scopes & caller.scopes
        if not own:
            what = "this token" if not caller.is_person else f"the role of {caller.token}"
            raise ApiError(403, f"{what} does not have the scope {_named(scopes)}")
        if path in BY_TEAM and any(caller.teams_for(each) != () for each in own):
            return
        if path not in OF_BOUND and all(caller.is_bound(each) for each in own):
            raise _for_all(caller)

    def _shown(
        self,
        address: str,
        headers: Mapping[str, str],
        cookies: Callable[[], Mapping[str, str]],
        *,
        is_open: bool,
    ) -> tuple[Caller, bool]:
        """The caller of the presented token, and whether a wrong one was presented."""
        nobody = Caller(address)
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and given.strip():
            try:
                found = self._of_token(given.strip(), address)
            except ApiError:
                if is_open:
                    return nobody, False
                raise
            return (found, False) if found else (nobody, True)
        if self._people is not None and not is_open:
            person, is_wrong = self._people.of_proxy(headers, address)
            if person is None and not is_wrong and (cookie := cookies().get(PERSON_COOKIE, "")):
                person = self._people.of_cookie(cookie, address, headers)
            if person is not None or is_wrong:
                return person or nobody, is_wrong
        # A browser sends its cookie long after the token has changed: on a public path that is no guess.
        session = "" if is_open else cookies().get(COOKIE, "")
        if not session:
            return nobody, False
        if not SESSION_FORM.fullmatch(session):  # of an earlier version, or of another program on this host
            return nobody, False
        try:
            found = self._tokens.of_session(session, address)
        except TokensNotReadError:
            raise tokens_not_read() from None
        if found is None:
            return nobody, True
        return (found if self.left_ms(found) > 0 else nobody), False

    def _of_token(self, given: str, address: str) -> Caller | None:
        try:
            return self._tokens.of_token(given, address)
        except TokensNotReadError:
            raise tokens_not_read() from None
        except EndedTokenError:
            raise ApiError(401, "this token has expired; trainfare tokens rotate makes another") from None

    def left_ms(self, caller: Caller) -> int:
        """Return for how long the caller's session or issued token goes on; another token has no end, and a shorter setting holds at once."""
        now_ms, ends_ms = self._wall_ms(), self._tokens.ends_ms(caller)
        of_token_ms = FOREVER_MS if ends_ms is None else max(ends_ms - now_ms, 0)
        if caller.until_ms is None:
            return of_token_ms
        if self._people is not None and not self._people.goes_on(caller):
            return 0
        left_ms = caller.until_ms - now_ms
        return min(left_ms, of_token_ms) if left_ms <= self._session_ms else 0

    def named(self, identity: str, address: str) -> Caller | None:
        """The holder of an issued token, by its name; None: it is not in force.

        Raises:
            ApiError: They are not read yet.
        """
        try:
            return self._tokens.named(identity, address)
        except TokensNotReadError:
            raise tokens_not_read() from None

    def is_in_force(self, identity: str) -> bool:
        """Whether an identity still is one; of people it is known while they are signed in alone, so they are.

        Raises:
            ApiError: Issued tokens are not read yet.
        """
        return not identity.startswith(ISSUED) or self.named(identity, "") is not None

    def refusal(self, address: str, message: str) -> ApiError:
        """Count a wrong secret of an address; return what answers it."""
        wait_s = self.guesses.wrong(address, self._now_ms())
        return _too_many_guesses(wait_s) if wait_s else ApiError(401, message)

    def is_private(self, remote: str, headers: Mapping[str, str], *, is_tls: bool) -> bool:
        """Whether the browser speaks TLS, with this worker or with a proxy before it.

        A proxy is believed if it is one of `web.trusted_proxies`; without, the host of an https `web.public_url` is.
        """
        if is_tls:
            return True
        if is_one_of(remote, self._proxies):
            return headers.get("X-Forwarded-Proto", "").rpartition(",")[2].strip().lower() == "https"
        return (
            self._public.scheme == "https" and self._public.netloc.lower() == headers.get("Host", "").lower()
        )

    def session(self, token: str, remote: str) -> Session | None:
        """A session of the page for a token; None if no token is required.

        Raises:
            ApiError: The token is wrong.
        """
        address = group_of(remote)
        if not self._tokens:
            return None
        if self._of_token(token, address) is not None:
            return self._tokens.session(token, self._wall_ms() + self._session_ms)
        wait_s = self.guesses.wrong(address, self._now_ms())
        if wait_s:
            raise _too_many_guesses(wait_s)
        raise ApiError(401, "this is no token of this worker (web.token)")


def tokens_not_read() -> ApiError:
    """What answers where a token may be an issued one, and these are not read yet."""
    return ApiError(
        503, "issued tokens are read from the topic `controls`, which is not done yet", "starting"
    )


_WHO_MAY: Final = "somebody who is bound to nothing may ask for it, and docs/access.md#rows-by-team lists what is kept apart by team"


def _for_all(caller: Caller) -> ApiError:
    if caller.is_person:
        return ApiError(
            403,
            f"the role of {caller.token} is bound to teams, and what is asked for is of all; {_WHO_MAY}",
            "beyond_role",
        )
    return ApiError(
        403,
        f"this token is bound to what it may name, and what is asked for is for all; {_WHO_MAY}",
        Reason.beyond_token,
    )


def _named(scopes: frozenset[Scope]) -> str:
    return " or ".join(f"`{each}`" for each in Scope if each in scopes)


def _too_many_guesses(wait_s: int) -> ApiError:
    fault = ApiError(
        429, "too many wrong tokens from this address; a right one is taken at once", retry_after_s=wait_s
    )
    fault.delay_s = GUESS_DELAY_S
    return fault


def _bare(host: str) -> str:
    return host.strip("[]").lower()


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
