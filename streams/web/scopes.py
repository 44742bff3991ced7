"""Tokens, the scopes that each grants and what each may name; a session of the page may read if its token may.

Tokens are those of the settings, that of a data directory, and those that `trainfare tokens` issues by records of `controls`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pydantic import SecretStr

from schemas.events import ControlEvent
from schemas.validate_tokens import TOKEN_FORM, IssuedToken, TokenBounds, hash_of, issued_token, newest_of
from streams.config.live import WebSettings
from streams.web.token_uses import TokenUses


class Scope(StrEnum):
    """A permission that a token grants."""

    METRICS = "metrics"
    READ = "read"
    QUERY = "query"
    INGEST = "ingest"  # events, OpenTelemetry, what a source has read
    ACT = "act"  # acknowledge, silence, plan, receipts
    LIMIT = "limit"  # budgets, overrides, tests of receivers, bills
    ADMIN = "admin"  # all of these


ALL: Final = frozenset(Scope)
#: What `web.write_token` has.
WRITING: Final = frozenset({Scope.INGEST, Scope.ACT, Scope.LIMIT})
#: The scope that each kind of control needs over HTTP; the others come through the topic alone.
CONTROL_SCOPES: Final[Mapping[str, Scope]] = {
    "ack": Scope.ACT,
    "silence": Scope.ACT,
    "planned": Scope.ACT,
    "receipt": Scope.ACT,
    "budget": Scope.LIMIT,
    "override": Scope.LIMIT,
    "actions": Scope.LIMIT,  # whether actions of budgets are sent
    "source": Scope.LIMIT,  # collectors report through a path of their own, with `ingest`
}
#: Scopes of everybody on a loopback address while no token is set.
OPEN_ON_LOOPBACK: Final = frozenset({Scope.METRICS, Scope.READ})
#: The content of the page's cookie: the second in which it ends, and a MAC of it.
#: Of an issued token also its name.
SESSION_FORM: Final = re.compile(r"([0-9]{1,12})\.([0-9a-f]{64})(?:\.([a-z0-9._-]{1,64}))?", re.ASCII)
LOCAL_NAME: Final = "local token"
#: Before the name of an issued token, where a record says by whom; no setting begins so.
ISSUED: Final = "token/"
#: Before the name of a person; no setting and no token begins so.
PERSON: Final = "person/"
UNBOUND: Final = TokenBounds()


@dataclass(frozen=True)
class Caller:
    """The client: the token it presented, and its address."""

    address: str
    token: str = ""  # name of its setting; empty: none was presented
    scopes: frozenset[Scope] = frozenset()
    until_ms: int | None = None  # when its session ends; None: a token has no end
    bounds: TokenBounds = UNBOUND
    expires_ms: int | None = None  # when its token does
    proven_by: str = ""  # where it was no token
    session: str = ""  # the hash of the session of a person
    person: str = (
        ""  # whose its issued token is: a person, or the token of nobody by which it was issued; '': its own
    )
    subject: str = ""  # of a person: a hash of what the identity provider, or proxy, knows them by
    hashed: str = field(default="", repr=False)  # of its issued token
    #: Scopes of a person that hold within teams alone.
    team_bounds: Mapping[Scope, frozenset[str]] = field(default_factory=dict, hash=False)

    def teams_for(self, scope: Scope) -> tuple[str, ...] | None:
        """The teams whose rows alone it sees with a scope; None: all of them. Of another bound than teams: none of them."""
        if scope in self.team_bounds:
            return tuple(sorted(self.team_bounds[scope]))
        if self.bounds == UNBOUND:
            return None
        by_others = self.bounds.owners or self.bounds.job_prefixes
        return () if by_others else tuple(sorted(set(self.bounds.teams)))

    def is_bound(self, scope: Scope) -> bool:
        """Whether a scope holds for a part of what there is."""
        return self.bounds != UNBOUND or scope in self.team_bounds

    def within(self, scope: Scope) -> Caller:
        """The same client with the bounds that one scope has."""
        teams = self.team_bounds.get(scope)
        return self if teams is None else replace(self, bounds=TokenBounds(teams=tuple(sorted(teams))))

    def only(self, scopes: frozenset[Scope]) -> Caller:
        """The same client with no other scopes."""
        return replace(self, scopes=self.scopes & scopes)

    def has(self, scope: Scope) -> bool:
        """Whether it has a scope."""
        return scope in self.scopes

    @property
    def proof(self) -> str:
        """How it was proven who this is."""
        return self.proven_by or ("issued token" if self.is_issued else "shared token")

    @property
    def is_issued(self) -> bool:
        """Whether its token is one of `trainfare tokens`."""
        return self.token.startswith(ISSUED)

    @property
    def is_person(self) -> bool:
        """Whether somebody has signed in."""
        return self.token.startswith(PERSON)

    @property
    def whose(self) -> str:
        """The person behind it, as far as that is known: two tokens of one person are one."""
        return whose_of(self.person, self.token)

    @property
    def issues_for(self) -> str:
        """Whose a token is that it issues without saying whose; '': nobody's, as a shared token is."""
        return (self.person or self.token.removeprefix(PERSON)) if self.is_identity else ""

    @property
    def is_identity(self) -> bool:
        """Whether it is somebody in particular, as whoever shows a shared token is not."""
        return self.is_issued or self.is_person


def whose_of(person: str, token: str) -> str:
    """The identity of a token of which `person` is on record."""
    if not person:
        return token
    return person if person.startswith(ISSUED) else f"{PERSON}{person}"


@dataclass(frozen=True)
class Session:
    """A session of the page: the content of its cookie, and when it ends."""

    cookie: str
    until_ms: int


class IssuedTokens:
    """The issued tokens in force, by hash and by name; built anew when a record changes them."""

    def __init__(self, records: IssuedRecords, filed: Mapping[bytes, ControlEvent]) -> None:
        self._records = records
        self._filed = filed
        self._standing: Mapping[bytes, ControlEvent] = filed
        self.uses = TokenUses()
        self._built_of: Mapping[bytes, ControlEvent] | None = None
        self._by_hash: dict[str, IssuedToken] = {}
        self._by_name: dict[str, IssuedToken] = {}
        self._granted: frozenset[Scope] = frozenset()

    @property
    def any(self) -> bool:
        """Whether there are any, or may be."""
        return not self._is_read() or bool(self._by_hash)

    @property
    def are_some(self) -> bool:
        """Whether there are any for certain."""
        return bool(self._by_hash if self._is_read() else self._filed)

    def standing(self) -> Mapping[bytes, ControlEvent]:
        """The newest record of each, by key.

        Raises:
            TokensNotReadError: They are not read yet.
        """
        self._check_read()
        return self._standing

    def grant(self, scopes: frozenset[Scope]) -> bool:
        """Whether one of them has one of the scopes, or may have."""
        return not self._is_read() or bool(self._granted & scopes)

    def of_hash(self, hashed: str) -> IssuedToken | None:
        """The token of a hash, which may have ended; None: there is none.

        Raises:
            TokensNotReadError: They are not read yet.
        """
        self._check_read()
        return self._by_hash.get(hashed)

    def of_name(self, name: str) -> IssuedToken:
        """The token of a name, without hashes if there is none.

        Raises:
            TokensNotReadError: They are not read yet.
        """
        self._check_read()
        return self._by_name.get(name, IssuedToken(name, frozenset(), UNBOUND, {}))

    def _check_read(self) -> None:
        if not self._is_read():
            raise TokensNotReadError

    def _is_read(self) -> bool:
        records = self._records()
        if records is not None and records is not self._built_of:
            # Of a hash that several have, none holds: whoever copied a record has no token.
            self._standing = newest_of(self._filed, records)
            found = [issued_token(each) for each in self._standing.values()]
            counts = Counter(hashed for each in found for hashed in each.hashes)
            self._by_name = {each.name: each for each in found}
            self._by_hash = {hashed: each for each in found for hashed in each.hashes if counts[hashed] == 1}
            self._granted = frozenset(scope for each in self._by_hash.values() for scope in _scopes_of(each))
            self._built_of = records
        return records is not None


def _scopes_of(issued: IssuedToken) -> frozenset[Scope]:
    scopes = frozenset(Scope(each) for each in issued.scopes)
    return ALL if Scope.ADMIN in scopes else scopes


def _issued_caller(issued: IssuedToken, address: str, hashed: str) -> Caller:
    return Caller(
        address,
        f"{ISSUED}{issued.name}",
        _scopes_of(issued),
        bounds=issued.bounds,
        expires_ms=issued.hashes[hashed],
        person=issued.person,
        hashed=hashed,
    )


@dataclass(frozen=True)
class _Known:
    name: str
    scopes: frozenset[Scope]
    token: bytes  # digest
    session_key: bytes  # derived from the token, which cannot be recovered from it


#: Issued tokens by the keys of their records; None: they are not read yet.
IssuedRecords = Callable[[], Mapping[bytes, ControlEvent] | None]


class TokensNotReadError(Exception):
    """A token may be an issued one, and these are not read yet."""


class EndedTokenError(Exception):
    """The token was right, and has expired."""


class Tokens:
    """The tokens of one worker.

    Args:
        settings: The tokens of the settings.
        local_token: One with all scopes beside them; None: there is none.
        issued: Those that `trainfare tokens` issued.
        wall_ms: The time of day, by which they expire.
    """

    def __init__(
        self,
        settings: WebSettings,
        local_token: str | None,
        issued: IssuedTokens | None = None,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._key = secrets.token_bytes(32)
        self._known = [
            _Known(name, scopes, self._digest(token), _session_key(token))
            for name, scopes, token in _all(settings, local_token)
        ]
        self.issued = IssuedTokens(dict, {}) if issued is None else issued
        self._wall_ms = wall_ms
        # What is kept of an issued token must not be enough to make a session of it.
        link_key = settings.act_link_key
        self._session_secret = secrets.token_bytes(32) if link_key is None else _session_key(_text(link_key))

    def __bool__(self) -> bool:
        return bool(self._known) or self.issued.any

    def grant(self, *scopes: Scope) -> bool:
        """Whether any token has one of these scopes, or may have: issued ones are not read yet."""
        return any(each.scopes.intersection(scopes) for each in self._known) or self.issued.grant(
            frozenset(scopes)
        )

    def of_token(self, given: str, address: str) -> Caller | None:
        """The caller with this token; None if it is unknown.

        Raises:
            TokensNotReadError: It looks like an issued one, and these are not read yet.
            EndedTokenError: It has expired.
        """
        digest = self._digest(given)
        # All are compared, so that the time does not reveal which one matched.
        found = [each for each in self._known if hmac.compare_digest(digest, each.token)]
        if found:
            return Caller(address, found[0].name, found[0].scopes)
        if not TOKEN_FORM.fullmatch(given):
            return None
        # Looked up by its hash, whose digits nobody chooses: the time tells nothing of any token.
        hashed = hash_of(given)
        issued = self.issued.of_hash(hashed)
        if issued is None:
            return None
        ends_ms = issued.hashes[hashed]
        if ends_ms is not None and self._wall_ms() >= ends_ms:
            raise EndedTokenError
        self.issued.uses.note(issued.name, address, self._wall_ms())
        return _issued_caller(issued, address, hashed)

    def named(self, identity: str, address: str) -> Caller | None:
        """Whoever shows the issued token of this name; None: there is none in force.

        Raises:
            TokensNotReadError: They are not read yet.
        """
        issued = self.issued.of_name(identity.removeprefix(ISSUED))
        now_ms = self._wall_ms()
        hashes = [hashed for hashed, ends in issued.hashes.items() if ends is None or now_ms < ends]
        return _issued_caller(issued, address, hashes[0]) if hashes and identity.startswith(ISSUED) else None

    def ends_ms(self, caller: Caller) -> int | None:
        """When the issued token that a caller has shown ends, 0 where it has been revoked or rotated; None: it has no end."""
        try:
            hashes = self.issued.of_name(caller.token.removeprefix(ISSUED)).hashes
        except TokensNotReadError:
            return None  # it was taken when they were
        return hashes.get(caller.hashed, 0) if caller.hashed else None

    def session(self, given: str, until_ms: int) -> Session | None:
        """A session of the page for a right token; None: it is unknown.

        Raises:
            TokensNotReadError: As of `of_token`.
            EndedTokenError: As of `of_token`.
        """
        caller = self.of_token(given, "")
        if caller is None or not caller.is_issued:
            return None if caller is None else session_of(given, until_ms)
        hashed, name = hash_of(given), caller.token.removeprefix(ISSUED)
        ends_ms = self.issued.of_name(name).hashes[hashed]
        until_s = (until_ms if ends_ms is None else min(ends_ms, until_ms)) // 1_000
        return Session(f"{until_s}.{_session_mac(self._issued_key(hashed), until_s)}.{name}", until_s * 1_000)

    def of_session(self, given: str, address: str) -> Caller | None:
        """The caller with this page session, whether it has ended or not; None if it is unknown.

        It may only read, whatever its token allows: a browser sends its cookies to every port of a host, and so to
        servers of other users of this machine.

        Raises:
            TokensNotReadError: It is of an issued token, and these are not read yet.
        """
        match = SESSION_FORM.fullmatch(given)
        if match is None:
            return None
        until_s, shown = int(match[1]), self._digest(match[2])
        if match[3] is not None:
            issued = self.issued.of_name(match[3])
            keys = [self._issued_key(each) for each in issued.hashes]
            callers = [_issued_caller(issued, address, each) for each in issued.hashes]
        else:
            keys = [each.session_key for each in self._known]
            callers = [Caller(address, each.name, each.scopes) for each in self._known]
        found = [
            caller
            for key, caller in zip(keys, callers, strict=True)
            if hmac.compare_digest(shown, self._digest(_session_mac(key, until_s)))
        ]
        if not found:
            return None
        if match[3] is not None and until_s * 1_000 > (now_ms := self._wall_ms()):
            self.issued.uses.note(match[3], address, now_ms)
        return replace(found[0], scopes=found[0].scopes & {Scope.READ}, until_ms=until_s * 1_000)

    def _issued_key(self, hashed: str) -> bytes:
        return hmac.digest(self._session_secret, hashed.encode(), "sha256")

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
        scope = name.removesuffix("_token")
        scopes = ALL if name == "token" else WRITING if scope == "write" else frozenset({Scope(scope)})
        yield f"web.{name}", scopes, _text(token)
    if local_token is not None:
        yield LOCAL_NAME, ALL, local_token


def _text(token: SecretStr) -> str:
    return token.get_secret_value()
