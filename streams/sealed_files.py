"""Secrets that a process keeps in files of its data directory: sealed by the key at rest, where one is set.

A file is what it was before where there is no key; the first process that has one seals it.
"""

from __future__ import annotations

from pathlib import Path

from sinks.errors import SinkError
from sinks.private_files import read_private, write_private
from streams.address_keys import SealedAddressError, address_keys, is_sealed, key_id_of

#: As much as a sealed secret of any of them takes.
_FILE_MAX_BYTES = 4_096


def read_secret(path: Path, keys: str | None) -> str | None:
    """The secret of a file; None if there is none.

    Args:
        path: The file; what it is called is sealed with it.
        keys: `at_rest.key`.

    Raises:
        SinkError: The file cannot be trusted, or is sealed by a key that is not here.
        WrongUseError: There is a key, and the library that seals is not installed.
    """
    data = read_private(path, _FILE_MAX_BYTES)
    if data is None:
        return None
    text = data.decode("utf-8", "surrogateescape").strip()
    if not is_sealed(text):
        return text
    box = address_keys(keys)
    if box is None:
        raise SinkError(
            f"{path} is sealed by the key {key_id_of(text)}: set at_rest.key (TRAINFARE_AT_REST_KEY_FILE) as the worker has it"
        )
    try:
        return box.opened(path.name, text)
    except SealedAddressError as fault:
        raise SinkError(f"{path}: {fault}") from None


def write_secret(path: Path, secret: str, keys: str | None) -> None:
    """Write a secret, sealed where there is a key; the caller has the directory open.

    Raises:
        SinkError: The system refused.
        WrongUseError: As of `read_secret`.
    """
    box = address_keys(keys)
    text = secret if box is None else box.sealed(path.name, secret)
    write_private(path, text.encode("utf-8", "surrogateescape") + b"\n")


def seal(path: Path, secret: str, keys: str | None) -> None:
    """Seal the secret of a file by the first key, if it is not; the caller has the directory open.

    Raises:
        SinkError: As of `write_secret`.
        WrongUseError: As of `read_secret`.
    """
    box, data = address_keys(keys), read_private(path, _FILE_MAX_BYTES)
    if (
        box is not None
        and data is not None
        and data.decode("utf-8", "replace").strip() != box.sealed(path.name, secret)
    ):
        write_secret(path, secret, keys)
