"""The key of the canary's proofs: the setting, else a file in the data directory that the worker makes."""

from __future__ import annotations

import secrets
from typing import Final

from schemas.canary_proof import KEY_MIN_CHARS, CanaryProof
from sinks.errors import SinkError
from streams.config.settings import Settings
from streams.sealed_files import read_secret, seal, write_secret

FILE_NAME: Final = "canary_key"
_RANDOM_BYTES: Final = 32


def canary_proof(settings: Settings, *, make: bool = False) -> CanaryProof | None:
    """The proof of this meter's canary; None if there is no key, so that no record can be proven.

    Args:
        settings: Name the key, or the data directory with its file.
        make: Make the file if the canary is enabled and there is none; the caller has the directory open.

    Raises:
        SinkError: The file cannot be trusted, has no key, or cannot be written.
    """
    given, data_dir = settings.canary.key, settings.clickhouse.data_dir
    if given is not None:
        return CanaryProof(given.get_secret_value().encode())
    if data_dir is None:
        return None
    path, keys = data_dir / FILE_NAME, settings.at_rest.keys
    found = read_secret(path, keys)
    if found is None and make and settings.canary.enabled:
        found = secrets.token_hex(_RANDOM_BYTES)
        write_secret(path, found, keys)
    if found is None:
        return None
    if len(found) < KEY_MIN_CHARS:
        raise SinkError(
            f"{path} holds no key (at least {KEY_MIN_CHARS} characters); remove it, and the worker makes another"
        )
    if make:
        seal(path, found, keys)
    return CanaryProof(found.encode("utf-8", "surrogateescape"))
