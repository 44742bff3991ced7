"""Signs the manifests of closed months, by one key of the meter: HMAC-SHA256, as webhooks are signed."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import SecretStr

from sinks.target import Embedded, Target
from streams.errors import WrongUseError
from streams.sealed_files import read_secret, seal, write_secret

FILE_NAME: Final = "closing_key"
_RANDOM_BYTES: Final = 32
_PURPOSE: Final = b"trainfare closed month\0"


class ClosingSecrets(NamedTuple):
    """What the settings say: `web.closing_key`, and the keys of `at_rest.key` that seal the file of a data directory."""

    configured: SecretStr | None = None
    at_rest: str | None = None


NO_SECRETS: Final = ClosingSecrets()


class ClosingKey:
    """A key, and the name by which a manifest says which one signed it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.key_id = hashlib.sha256(_PURPOSE + key).hexdigest()[:16]

    def signature(self, manifest: str) -> str:
        """The signature of a manifest, in hexadecimal digits."""
        return hmac.digest(self._key, _PURPOSE + manifest.encode(), "sha256").hex()

    def holds(self, manifest: str, signature: str) -> bool:
        """Whether this key signed the manifest, byte for byte."""
        return hmac.compare_digest(self.signature(manifest).encode(), signature.encode("utf-8", "replace"))


def closing_key(target: Target, given: ClosingSecrets, *, may_make: bool) -> ClosingKey | None:
    """The configured key, else that of the data directory; None if there is neither.

    Args:
        target: Where the store is; this process has it open.
        given: By the settings.
        may_make: Whether a directory without a key gets one.

    Raises:
        SinkError: The file cannot be trusted.
        WrongUseError: A server has no configured key, and one is to be made.
    """
    if given.configured is not None:
        return ClosingKey(given.configured.get_secret_value().encode("utf-8", "surrogateescape"))
    if not isinstance(target, Embedded):
        if may_make:
            raise WrongUseError(
                "closing a month over a ClickHouse server needs web.closing_key (TRAINFARE_WEB_CLOSING_KEY): a secret of at "
                "least 32 characters, the same wherever months are closed and verified; `openssl rand -hex 32` makes one"
            )
        return None
    path = Path(target.data_dir) / FILE_NAME
    found = read_secret(path, given.at_rest)
    if found is None and may_make:
        found = secrets.token_hex(_RANDOM_BYTES)
        write_secret(path, found, given.at_rest)
    elif found is not None and may_make:
        seal(path, found, given.at_rest)
    return None if found is None else ClosingKey(found.encode("utf-8", "surrogateescape"))
