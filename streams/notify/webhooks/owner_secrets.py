"""Finds the secret that signs an owner's webhooks: the owner's own, from a file, or the common one.

Files that others may read or change are not used.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes

from streams.clock import Clock
from streams.config.live import signing_secrets
from streams.notify.webhooks.signing import Signer
from streams.threads import Threads

_FILE_BYTES_AT_MOST: Final = 4_096
_NAME_BYTES_AT_MOST: Final = 255
_KEPT_MS: Final = 60_000
_OWNERS_KEPT: Final = 10_000
_ANY_OF_OTHERS: Final = 0o007
_WRITABLE_BY_GROUP: Final = 0o020


class OwnerSecretError(Exception):
    """The file of an owner's secret is there and cannot be used; the text has the file's name and may be shown."""


class OwnerSecrets:
    """A directory of files named after owners."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, owner: str) -> tuple[str, ...]:
        """The owner's secrets; empty: there is no file. Blocks.

        Raises:
            OwnerSecretError: The file, or its directory, cannot be used.
        """
        name = file_name(owner)
        if name is None:
            return ()
        try:
            self._check_folder()
            # Kubernetes mounts secrets as links, so links are followed; what is opened is what is checked.
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return ()
        except OSError as fault:
            raise OwnerSecretError(f"{name} in alerts.owner_secrets_dir: {fault.strerror}") from None
        try:
            reason = _unusable(os.fstat(descriptor))
            content = b"" if reason else os.read(descriptor, _FILE_BYTES_AT_MOST)
        finally:
            os.close(descriptor)
        if reason:
            raise OwnerSecretError(f"{name} in alerts.owner_secrets_dir {reason}")
        try:
            return signing_secrets(content.decode())
        except ValueError as fault:
            reason = "is no text" if isinstance(fault, UnicodeDecodeError) else str(fault)
            raise OwnerSecretError(f"{name} in alerts.owner_secrets_dir: {reason}") from None

    def _check_folder(self) -> None:
        found = self._folder.stat()
        # A volume of secrets in Kubernetes may be written by all, and is mounted read-only.
        if found.st_mode & stat.S_IWOTH and not os.statvfs(self._folder).f_flag & os.ST_RDONLY:
            raise OwnerSecretError("alerts.owner_secrets_dir may be written by others; run chmod o-w on it")


class Signers:
    """The signers of owners, each read again after a minute, so that a rotation needs no restart."""

    def __init__(self, common: str | None, folder: Path | None, clock: Clock) -> None:
        self._common = None if common is None else Signer(*signing_secrets(common))
        self._secrets = None if folder is None else OwnerSecrets(folder)
        self._clock = clock
        self._threads = Threads("owner-secrets")
        self._read: OrderedDict[str, tuple[int, Signer | None]] = OrderedDict()

    async def of(self, owner: str) -> Signer | None:
        """The signer of an owner's messages; of the empty name, the common one. None: there is no secret.

        Raises:
            OwnerSecretError: The owner's file cannot be used; the common secret does not stand in for it.
        """
        if self._secrets is None or not owner:
            return self._common
        now_ms = self._clock.monotonic_ms()
        read_ms, signer = self._read.get(owner, (now_ms - _KEPT_MS, None))
        if now_ms - read_ms >= _KEPT_MS:
            secrets = await self._threads.run(self._secrets.of, owner)
            signer = Signer(*secrets) if secrets else None
            self._read[owner] = now_ms, signer
            self._read.move_to_end(owner)
            if len(self._read) > _OWNERS_KEPT:
                self._read.popitem(last=False)
        return signer or self._common


def file_name(owner: str) -> str | None:
    """The name of an owner's file: the owner's as in a URL, so that no owner names a path. None: too long."""
    name = quote_from_bytes(owner.encode("utf-8", "surrogatepass"), safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"  # neither hidden nor a directory
    return name if 0 < len(name) <= _NAME_BYTES_AT_MOST else None


def _unusable(found: os.stat_result) -> str:
    """Why a file is not used; empty if it may be."""
    if not stat.S_ISREG(found.st_mode):
        return "is no file"
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {found.st_uid}, neither to this user nor to root"
    if found.st_mode & (_ANY_OF_OTHERS | _WRITABLE_BY_GROUP):
        return "may be read or changed by others; run chmod 600 on it"
    return ""
