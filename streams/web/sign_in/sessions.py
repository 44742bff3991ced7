"""The sessions of people who have signed in, in the memory of one worker.

It must not keep what a cookie contains, only a hash of it, nor grow beyond its limits.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from streams.web.sign_in.roles import Granted

SESSIONS_MAX: Final = 10_000
SESSIONS_OF_ONE_MAX: Final = 16
_ID_BYTES: Final = 32
_GIVEN_MAX_CHARS: Final = 64


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
class PersonSession:
    """One session."""

    hashed: str
    person: Person
    until_ms: int


class PersonSessions:
    """All sessions; the oldest of one person gives way to a new one of the same person, never to another's."""

    def __init__(self, most: int = SESSIONS_MAX, most_of_one: int = SESSIONS_OF_ONE_MAX) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._by_hash: OrderedDict[str, PersonSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_hash)

    def begin(self, person: Person, until_ms: int, now_ms: int) -> str:
        """Return the content of the cookie of a new session.

        Raises:
            SessionsFullError: There are as many as there may be.
        """
        for ended in [each.hashed for each in self._by_hash.values() if each.until_ms <= now_ms]:
            self.end(ended)
        own = [each.hashed for each in self._by_hash.values() if each.person.subject == person.subject]
        if len(own) >= self._most_of_one:
            self.end(own[0])
        if len(self._by_hash) >= self._most:
            raise SessionsFullError(f"there are {self._most} sessions, as many as there may be")
        given = secrets.token_urlsafe(_ID_BYTES)
        hashed = _hash(given)
        self._by_hash[hashed] = PersonSession(hashed, person, until_ms)
        return given

    def of(self, given: str, now_ms: int) -> PersonSession | None:
        """The session of a cookie; None: there is none, or it has ended."""
        if len(given) > _GIVEN_MAX_CHARS:
            return None
        # Looked up by its hash, whose digits nobody chooses: the time tells nothing of any session.
        return self.of_hash(_hash(given), now_ms)

    def of_hash(self, hashed: str, now_ms: int) -> PersonSession | None:
        """The session of a hash, if it goes on."""
        found = self._by_hash.get(hashed)
        return found if found is not None and found.until_ms > now_ms else None

    def end(self, hashed: str) -> None:
        """End a session, if there is such a one."""
        self._by_hash.pop(hashed, None)


def _hash(given: str) -> str:
    return hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
