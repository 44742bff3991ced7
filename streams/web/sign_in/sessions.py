"""The sessions of people who have signed in, in the memory of one worker.

It must not keep what a cookie contains, only a hash of it, nor grow beyond its limits, nor let a session go on whose person
the identity provider has not vouched for lately.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from schemas.durations import HOUR_MS
from streams.web.sign_in.roles import Granted

SESSIONS_MAX: Final = 10_000
SESSIONS_OF_ONE_MAX: Final = 16
_ID_BYTES: Final = 32
_GIVEN_MAX_CHARS: Final = 64
#: For how long sessions go on whose provider does not answer; and when it is asked again after it did not.
PROVIDER_AWAY_MS: Final = HOUR_MS
_AGAIN_MS: Final = 30_000


class SignInError(Exception):
    """A sign-in came to nothing; the message is for the worker's log, the code for the page."""

    code = "token"


class SessionsFullError(SignInError):
    """There is no room for another session."""

    code = "full"


@dataclass(frozen=True)
class Person:
    """Somebody whom the identity provider has named."""

    subject: str  # the provider's own, which no other person ever has
    name: str  # by which records say who did what
    granted: Granted


@dataclass(frozen=True)
class Renewal:
    """By what the provider is asked again about a person; in memory alone."""

    nonce: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)  # '': the provider gave none
    access_token: str = field(default="", repr=False)

    @property
    def is_possible(self) -> bool:
        """Whether it can be asked at all."""
        return bool(self.refresh_token or self.access_token)


@dataclass(frozen=True)
class PersonSession:
    """One session."""

    hashed: str
    person: Person
    until_ms: int
    renewal: Renewal
    vouched_ms: int  # when the provider last said who it is of
    asked_ms: int  # when it was last asked to


class PersonSessions:
    """All sessions; the oldest of one person gives way to a new one of the same person, never to another's."""

    def __init__(
        self, recheck_ms: int = 0, most: int = SESSIONS_MAX, most_of_one: int = SESSIONS_OF_ONE_MAX
    ) -> None:
        self._recheck_ms = recheck_ms  # 0: the provider is asked at the sign-in alone
        self._most, self._most_of_one = most, most_of_one
        self._by_hash: OrderedDict[str, PersonSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_hash)

    def begin(self, person: Person, until_ms: int, now_ms: int, renewal: Renewal | None = None) -> str:
        """Return the content of the cookie of a new session.

        Raises:
            SessionsFullError: There are as many as there may be.
        """
        for ended in [each.hashed for each in self._by_hash.values() if self._ends_ms(each) <= now_ms]:
            self.end(ended)
        own = [each.hashed for each in self._by_hash.values() if each.person.subject == person.subject]
        if len(own) >= self._most_of_one:
            self.end(own[0])
        if len(self._by_hash) >= self._most:
            raise SessionsFullError(f"there are {self._most} sessions, as many as there may be")
        given = secrets.token_urlsafe(_ID_BYTES)
        hashed = _hash(given)
        self._by_hash[hashed] = PersonSession(
            hashed, person, until_ms, renewal or Renewal(""), now_ms, now_ms
        )
        return given

    def due(self, now_ms: int) -> list[PersonSession]:
        """Those of which the provider is to be asked again, the longest ago first."""
        if not self._recheck_ms:
            return []
        found = [
            each
            for each in self._by_hash.values()
            if each.renewal.is_possible
            and now_ms - each.asked_ms
            >= (self._recheck_ms if each.asked_ms == each.vouched_ms else _AGAIN_MS)
        ]
        return sorted(found, key=lambda each: each.asked_ms)

    def vouched(self, hashed: str, granted: Granted, renewal: Renewal, now_ms: int) -> None:
        """Take what the provider said of a session's person, unless it has ended meanwhile."""
        if (found := self._by_hash.get(hashed)) is not None:
            person = replace(found.person, granted=granted)
            self._by_hash[hashed] = replace(
                found, person=person, renewal=renewal, vouched_ms=now_ms, asked_ms=now_ms
            )

    def not_answered(self, hashed: str, now_ms: int) -> None:
        """Note that the provider was asked of a session and did not answer."""
        if (found := self._by_hash.get(hashed)) is not None:
            self._by_hash[hashed] = replace(found, asked_ms=now_ms)

    def _ends_ms(self, session: PersonSession) -> int:
        if not self._recheck_ms:
            return session.until_ms
        away_ms = PROVIDER_AWAY_MS if session.renewal.is_possible else 0
        return min(session.until_ms, session.vouched_ms + self._recheck_ms + away_ms)

    def of(self, given: str, now_ms: int) -> PersonSession | None:
        """The session of a cookie; None: there is none, or it has ended."""
        if len(given) > _GIVEN_MAX_CHARS:
            return None
        # Looked up by its hash, whose digits nobody chooses: the time tells nothing of any session.
        return self.of_hash(_hash(given), now_ms)

    def of_hash(self, hashed: str, now_ms: int) -> PersonSession | None:
        """The session of a hash, if it goes on."""
        found = self._by_hash.get(hashed)
        return found if found is not None and self._ends_ms(found) > now_ms else None

    def end(self, hashed: str) -> None:
        """End a session, if there is such a one."""
        self._by_hash.pop(hashed, None)


def _hash(given: str) -> str:
    return hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
