"""Checks what an identity provider has signed; joserfc knows tokens and keys.

It must not let a token choose how it is checked: algorithms are listed here, and keys are the provider's.
"""

from __future__ import annotations

import hmac
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError, SecurityWarning

from streams.web.sign_in.sessions import SignInError

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
#: The type of key of each: one of another type is not tried.
_KEY_TYPES: Final = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
_RSA_MIN_BITS: Final = 2_048
KEYS_MAX: Final = 64
TOKEN_MAX_CHARS: Final = 65_536
_LEEWAY_S: Final = 60
_SUBJECT_MAX_CHARS: Final = 255

# RFC 9864 prefers another name of EdDSA, which providers do not use yet. Once, at import: the filters are of all threads.
warnings.filterwarnings("ignore", "EdDSA is deprecated", SecurityWarning)

Keys = Mapping[str, jwk.Key]


class TokenRefusedError(SignInError):
    """A token of the provider is not what it must be; the message says what, without its content."""


class UnknownKeyError(TokenRefusedError):
    """No key has the token's id: the provider may have a new one."""


@dataclass(frozen=True)
class ExpectedToken:
    """What a token must say."""

    issuer: str
    client_id: str
    nonce: str
    is_renewed: bool = False  # then it may leave the nonce out


def keys_of(document: Mapping[str, Any]) -> dict[str, jwk.Key]:
    """The public keys of a JWKS by their ids; those of other types and uses are left out.

    Raises:
        TokenRefusedError: It is no JWKS, or has too many keys.
    """
    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise TokenRefusedError(f"the provider's keys are no list of at most {KEYS_MAX}")
    found: dict[str, jwk.Key] = {}
    for each in listed:
        is_ours = isinstance(each, dict) and each.get("kty") in _KEY_TYPES.values() and "d" not in each
        if not is_ours or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwk.import_key(each)
        except (JoseError, ValueError, TypeError):
            continue
        if isinstance(key, jwk.RSAKey) and key.raw_value.key_size < _RSA_MIN_BITS:
            continue
        found[str(each.get("kid", ""))] = key
    return found


def checked(token: str, keys: Keys, expected: ExpectedToken, now_s: int) -> dict[str, Any]:
    """The claims of a token that is right in every respect.

    Raises:
        UnknownKeyError: No key has its id.
        TokenRefusedError: It is wrong.
    """
    if len(token) > TOKEN_MAX_CHARS:
        raise TokenRefusedError(f"the token is longer than {TOKEN_MAX_CHARS} characters")
    try:
        header = jws.extract_compact(token.encode()).headers()
        key = _key_of(header, keys)
        claims = dict(jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims)
    except (JoseError, ValueError, TypeError) as fault:
        raise TokenRefusedError(f"its signature does not hold ({type(fault).__name__})") from fault
    _check(claims, expected, now_s)
    return claims


def _key_of(header: Mapping[str, Any], keys: Keys) -> jwk.Key:
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenRefusedError(f"alg: expected one of {', '.join(ALGORITHMS)}")
    if key_id is None and len(keys) == 1:
        key = next(iter(keys.values()))
    elif isinstance(key_id, str) and key_id in keys:
        key = keys[key_id]
    else:
        raise UnknownKeyError("no key of the provider has its id (kid)")
    if key.key_type != _KEY_TYPES[algorithm]:
        raise TokenRefusedError("alg: its key is of another type")
    return key


def _check(claims: Mapping[str, Any], expected: ExpectedToken, now_s: int) -> None:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != expected.issuer:
        raise TokenRefusedError("iss: another issuer than sign_in.issuer")
    if expected.client_id not in audiences:
        raise TokenRefusedError("aud: it is for another client than sign_in.client_id")
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != expected.client_id:
        raise TokenRefusedError("azp: it was made for another client than sign_in.client_id")
    expires_s, issued_s, after_s = (
        _time(claims, "exp"),
        _time(claims, "iat"),
        _time({"nbf": 0, **claims}, "nbf"),
    )
    if now_s >= expires_s + _LEEWAY_S:
        raise TokenRefusedError("exp: it has expired")
    if issued_s > now_s + _LEEWAY_S or after_s > now_s + _LEEWAY_S:
        raise TokenRefusedError("iat, nbf: it is of the future; compare the clocks")
    nonce, subject = claims.get("nonce"), claims.get("sub")
    if nonce is None and expected.is_renewed:
        nonce = expected.nonce
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise TokenRefusedError("nonce: it is not of this sign-in")
    if not isinstance(subject, str) or not 1 <= len(subject) <= _SUBJECT_MAX_CHARS:
        raise TokenRefusedError("sub: expected who it is of")


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise TokenRefusedError(f"{name}: expected a time")
    return value
