"""Checks the controls of kind `token`: access tokens that `trainfare tokens` issues, by their hash and never by their text."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.events import ControlEvent
from schemas.reasons import Reason
from schemas.refusal import refuse, refuse_missing, refuse_unknown

TOKEN: Final = "token"  # noqa: S105 - the name of a kind
KEY_PREFIX: Final = b"token/"
#: What a token may be issued for; `admin` has all.
SCOPES: Final = ("metrics", "read", "query", "ingest", "act", "limit", "admin")
#: Of one bound.
MAX_BOUND: Final = 100
#: The text of a token: 256 random bits, so that its hash can be looked up by nobody who lacks it.
TOKEN_FORM: Final = re.compile(r"trainfare_[A-Za-z0-9_-]{43}", re.ASCII)
#: Of a person, as signing in names one, so that none is named as a token is.
PERSON_FORM: Final = re.compile(r"[A-Za-z0-9._@+:|=-]{1,128}", re.ASCII)
NAME_FORM: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
#: Whose a token is that another one issued, of which nobody is known.
_ISSUER_FORM: Final = re.compile(rf"token/{NAME_FORM.pattern}", re.ASCII)

_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: What every figure of everybody is behind, or every act: no bound would hold there.
_UNBOUND: Final = ("metrics", "admin")
#: Rows are kept apart by team, and by nothing else.
_BY_TEAM: Final = ("read", "query")


class TokenBounds(NamedTuple):
    """What a token may name; an empty bound is none."""

    teams: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    job_prefixes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


#: Their names, in records as well.
BOUNDS: Final = TokenBounds._fields
_FIELDS: Final = frozenset(
    {"hash", "scopes", *BOUNDS, "expires_ms", "former_hash", "former_until_ms", "revoked", "by", "comment", "person"}
)  # fmt: skip


class IssuedToken(NamedTuple):
    """An issued token in force; `hashes` has the instant at which each ends (ms since 1970), None: never."""

    name: str
    scopes: frozenset[str]
    bounds: TokenBounds
    hashes: Mapping[str, int | None]
    person: str = (
        ""  # whose it is: a person, or token/NAME of the one that issued it; '': nobody's but its own
    )


def is_token(key: bytes, event: ControlEvent | None) -> bool:
    """Whether a record of `controls` issues, changes or forgets a token: no alert or budget depends on it."""
    return key.startswith(KEY_PREFIX) and (event is None or event.kind == TOKEN)


def hash_of(token: str) -> str:
    """What is kept of a token: its SHA-256 in hexadecimal digits. A slow hash would add nothing to 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def issued_token(event: ControlEvent) -> IssuedToken:
    """The token of a checked record; of a revoked one it has no hash."""
    value: Mapping[str, Any] = event.value
    hashes: dict[str, int | None] = {}
    if not value.get("revoked", False):
        expires_ms = value.get("expires_ms")
        if former := value.get("former_hash"):
            ends_ms = int(value["former_until_ms"])
            hashes[former] = ends_ms if expires_ms is None else min(ends_ms, expires_ms)
        hashes[value["hash"]] = expires_ms
    bounds = TokenBounds(*(tuple(value.get(name, ())) for name in BOUNDS))
    return IssuedToken(
        event.name, frozenset(value.get("scopes", ())), bounds, hashes, value.get("person", "")
    )


def newest_of(
    filed: Mapping[bytes, ControlEvent], logged: Mapping[bytes, ControlEvent]
) -> dict[bytes, ControlEvent]:
    """The tokens of a file and of the log together: of one name the later record holds."""
    found = {**filed}
    for key, event in logged.items():
        if key not in found or event.time_ms >= found[key].time_ms:
            found[key] = event
    return found


def check_token(name: str, value: Mapping[str, object]) -> None:
    """Check the fields of a record.

    Raises:
        RefusedError: One is missing or invalid. No value is in its words: the hash is nobody's to read.
    """
    if not NAME_FORM.fullmatch(name):
        refuse(Reason.out_of_range, "name", name, "a name of a-z, 0-9, `.`, `_`, `-`, at most 64 characters")
    refuse_unknown(value, _FIELDS)
    revoked = value.get("revoked", False)
    if not isinstance(revoked, bool):
        refuse(Reason.wrong_type, "revoked", "***", "true or false")
    scopes = value.get("scopes", [] if revoked else None)
    if scopes is None:
        refuse_missing("scopes", f"some of {', '.join(SCOPES)}")
    if not isinstance(scopes, list) or not (scopes or revoked) or not all(each in SCOPES for each in scopes):
        refuse(Reason.unknown_value, "scopes", "***", f"some of {', '.join(SCOPES)}")
    for bound in BOUNDS:
        given = value.get(bound, [])
        if (
            not isinstance(given, list)
            or len(given) > MAX_BOUND
            or not all(isinstance(each, str) and each for each in given)
        ):
            refuse(Reason.wrong_type, bound, "***", f"at most {MAX_BOUND} names")
    _check_bounds(scopes, value)
    if not (revoked and value.get("hash") is None):
        _check_hash("hash", value.get("hash"))
    if value.get("former_hash") is not None:
        _check_hash("former_hash", value["former_hash"])
        _check_instant("former_until_ms", value.get("former_until_ms"))
    if value.get("expires_ms") is not None:
        _check_instant("expires_ms", value["expires_ms"])
    _check_person(value.get("person"))


def _check_person(given: object) -> None:
    if given is not None and not (
        isinstance(given, str) and (PERSON_FORM.fullmatch(given) or _ISSUER_FORM.fullmatch(given))
    ):
        refuse(Reason.out_of_range, "person", "***", "a name as signing in has it, e.g. ada@example.com")


def _check_bounds(scopes: Sequence[str], value: Mapping[str, object]) -> None:
    """Check that no bound is given that would not hold."""
    bound = next((each for each in BOUNDS if value.get(each)), None)
    if bound is None:
        return
    if (beyond := next((each for each in scopes if each in _UNBOUND), None)) is not None:
        refuse(
            Reason.out_of_range,
            bound,
            "***",
            f"no bound with the scope {beyond}: it is for all that there is, and would be shown or done whatever the bound; "
            "issue a token of its own for it",
        )
    seeing = next((each for each in scopes if each in _BY_TEAM), None)
    if seeing is not None and (not value.get("teams") or value.get("owners") or value.get("job_prefixes")):
        refuse(
            Reason.out_of_range,
            bound,
            "***",
            f"the scope {seeing} with the bound teams or with none: rows are kept apart by team alone; issue a token of its own for it",
        )
    if "ingest" in scopes and (value.get("teams") or value.get("owners")) and not value.get("sources"):
        refuse_missing("sources", "those of its events (the SDK's is sdk): it could send as any other")


def _check_hash(field: str, given: object) -> None:
    if not isinstance(given, str) or not _HASH.fullmatch(given):
        refuse(Reason.wrong_type, field, "***", "64 hexadecimal digits, the SHA-256 of the token")


def _check_instant(field: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**53:
        refuse(Reason.wrong_type, field, "***", "ms since 1970 UTC")
