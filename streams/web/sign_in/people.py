"""Who a request is of, where people sign in: by the cookie of a session, or by headers of a proxy that has signed them in.

It must not believe a header that comes without the proxy's secret, nor let a page of another site act for a person.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from multidict import MultiMapping

from schemas.validate_tokens import PERSON_FORM
from streams.config.serving import SignInSettings
from streams.errors import WrongUseError
from streams.web.errors import ApiError
from streams.web.scopes import PERSON, Caller, Scope
from streams.web.sign_in.roles import RoleMap, load_roles
from streams.web.sign_in.sessions import Person, PersonSessions

PERSON_COOKIE: Final = "trainfare_person"
GROUPS_MAX: Final = 2_000


class People:
    """The people of one worker.

    Args:
        settings: Where they sign in.
        roles: The roles of their groups.
        session_ms: How long a session goes on.
        wall_ms: The time of day.
    """

    def __init__(
        self, settings: SignInSettings, roles: RoleMap, session_ms: int, wall_ms: Callable[[], int]
    ) -> None:
        self._settings, self.roles = settings, roles
        self.session_ms, self._wall_ms = session_ms, wall_ms
        self.sessions = PersonSessions(settings.recheck_ms)
        self._key = secrets.token_bytes(32)

    def of_proxy(self, headers: Mapping[str, str], address: str) -> tuple[Caller | None, bool]:
        """The person of the headers of a proxy, and whether a wrong secret was shown.

        Raises:
            ApiError: The proxy names nobody, or somebody without a role.
        """
        settings = self._settings
        if settings.proxy_secret is None or settings.proxy_secret_header not in headers:
            return None, False
        shown, expected = headers[settings.proxy_secret_header], settings.proxy_secret.get_secret_value()
        if not hmac.compare_digest(self._digest(shown), self._digest(expected)):
            return None, True
        names = (settings.proxy_secret_header, settings.proxy_user_header, settings.proxy_groups_header)
        if isinstance(headers, MultiMapping) and any(len(headers.getall(each, ())) > 1 for each in names):
            raise ApiError(400, f"each of the headers {', '.join(names)} may come once", "proxy_headers")
        user = headers.get(settings.proxy_user_header, "").strip()
        if not user:
            raise ApiError(
                401, f"the proxy names nobody: it must send the header {settings.proxy_user_header}"
            )
        groups = [each.strip() for each in headers.get(settings.proxy_groups_header, "").split(",")]
        person = self.person(user, user, groups)
        # Whoever follows the stream sends headers again where it ends.
        lasts_ms = min(self.session_ms, settings.recheck_ms or self.session_ms)
        caller = self._caller(person, address, self._wall_ms() + lasts_ms, "proxy", "")
        return _from_own_page(caller, headers), False

    def of_cookie(self, given: str, address: str, headers: Mapping[str, str]) -> Caller | None:
        """The person of a session's cookie; None: there is none, or it has ended."""
        found = self.sessions.of(given, self._wall_ms())
        if found is None:
            return None
        caller = self._caller(found.person, address, found.until_ms, "sign-in", found.hashed)
        return _from_own_page(caller, headers)

    def goes_on(self, caller: Caller) -> bool:
        """Whether the session of a person has not ended and allows what it did; anybody else has none."""
        if not caller.session:
            return True
        found = self.sessions.of_hash(caller.session, self._wall_ms())
        if found is None:
            return False
        granted = found.person.granted
        return caller.scopes <= granted.scopes and caller.team_bounds == granted.team_bounds

    def person(self, subject: str, name: str, groups: Collection[str]) -> Person:
        """A person by what was proven.

        Raises:
            ApiError: None of the groups has a role.
        """
        granted = self.roles.of(groups) if len(groups) <= GROUPS_MAX else None
        # What is no plain name is shown by its hash: it goes into records, and into logs.
        shown = name if PERSON_FORM.fullmatch(name) else _short_hash(name)
        if granted is None:
            raise ApiError(
                403,
                f"{shown} is signed in, and none of {len(groups)} groups has a role here (sign_in.roles_file)",
                "no_role",
            )
        return Person(subject, shown, granted)

    def _caller(self, person: Person, address: str, until_ms: int, proven_by: str, session: str) -> Caller:
        return Caller(
            address,
            f"{PERSON}{person.name}",
            person.granted.scopes,
            until_ms,
            proven_by=proven_by,
            session=session,
            subject=_short_hash(f"{proven_by} {person.subject}"),
            team_bounds=person.granted.team_bounds,
        )

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), "sha256")


def people_of(settings: SignInSettings, session_ms: int, wall_ms: Callable[[], int]) -> People | None:
    """The people of the settings; None: nobody signs in.

    Raises:
        WrongUseError: The file of roles is missing or wrong.
    """
    if not settings.is_on:
        return None
    if settings.roles_file is None:
        raise WrongUseError("sign_in.roles_file is not set: it says which group of people has which role")
    return People(settings, load_roles(settings.roles_file), session_ms, wall_ms)


def groups_of(claims: Mapping[str, Any], claim: str) -> list[str]:
    """The groups that a token names; one group may stand alone."""
    found = claims.get(claim, [])
    if isinstance(found, str):
        return [found]
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of this worker asks; a browser adds a cookie to requests of others' pages, too."""
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return False
    origin = headers.get("Origin")
    return "Sec-Fetch-Site" in headers if origin is None else _is_of(origin, headers.get("Host", ""))


def _from_own_page(caller: Caller, headers: Mapping[str, str]) -> Caller:
    """What proves a person does more than read for the worker's own page alone."""
    return caller if is_own_page(headers) else caller.only(frozenset({Scope.READ}))


def _is_of(origin: str, host: str) -> bool:
    return bool(host) and urlsplit(origin).netloc == host
