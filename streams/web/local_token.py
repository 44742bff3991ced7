"""The token of a data directory: created once, readable by its owner only, used by local commands.

It must not be printed here, nor be written before the directory is ours.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from sinks.errors import SinkError
from streams.sealed_files import read_secret, seal, write_secret

FILE_NAME: Final = "token"
#: What a command says that was refused without one.
WHERE: Final = (
    "set TRAINFARE_WEB_TOKEN (web.token), e.g. to the content of the file `token` in the worker's data directory, which a "
    "demo names at its start; --data DIR instead of --url reads it by itself"
)
_RANDOM_BYTES: Final = 32
#: The format of a token that an operator may have written: as long as any token must be, and valid in headers and URLs.
_ALLOWED: Final = re.compile(r"[A-Za-z0-9._~-]{16,200}")


class LocalToken:
    """The token of one directory: that of its file, else a new one that `write_if_new` writes.

    Raises:
        SinkError: The file cannot be trusted or holds no token.
    """

    def __init__(self, data_dir: Path, keys: str | None = None) -> None:
        self.path = data_dir / FILE_NAME
        self._keys = keys
        found = read(data_dir, keys)
        self._is_new = found is None
        self.value = secrets.token_urlsafe(_RANDOM_BYTES) if found is None else found

    def write_if_new(self) -> None:
        """Write the token if it is new, and seal one that was written before there was a key; the caller has the directory open.

        Raises:
            SinkError: The system refused.
        """
        if self._is_new:
            write_secret(self.path, self.value, self._keys)
            self._is_new = False
        else:
            seal(self.path, self.value, self._keys)


def read(data_dir: Path, keys: str | None = None) -> str | None:
    """The token of a directory, by the keys of `at_rest.key`; None if it has none.

    Raises:
        SinkError: The file cannot be trusted or holds no token.
    """
    path = data_dir / FILE_NAME
    text = read_secret(path, keys)
    if text is None:
        return None
    if not _ALLOWED.fullmatch(text):
        raise SinkError(
            f"{path} holds no token (16 to 200 letters, digits and . _ ~ -); remove it, and a worker makes another"
        )
    return text
