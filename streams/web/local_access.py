"""Leaves the address and token of a serving process in its data directory, for commands on the same machine.

It must write a token only to its file and to an interactive terminal.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TextIO

from streams.config.live import WebSettings
from streams.web.endpoint import Endpoint, announce, withdraw
from streams.web.local_token import LocalToken
from streams.web.running import RunningMeter, forget, note

logger = logging.getLogger(__name__)


class LocalAccess:
    """The files of one process; without a data directory there are none.

    A configured `web.token` has all scopes, so then no local token is created. `keys` of `at_rest.key` seal it.

    Raises:
        SinkError: A token file exists and cannot be trusted.
    """

    def __init__(self, web: WebSettings, data_dir: Path | None, keys: str | None = None) -> None:
        self._data_dir = data_dir
        makes_token = web.enabled and web.token is None and data_dir is not None
        self._token = LocalToken(data_dir, keys) if makes_token and data_dir is not None else None
        self._is_open = False
        self._noted: RunningMeter | None = None

    @property
    def token(self) -> str | None:
        """The token, even before it is written."""
        return None if self._token is None else self._token.value

    @property
    def token_path(self) -> Path | None:
        """The path of the token file."""
        return None if self._token is None else self._token.path

    def link(self, url: str) -> str:
        """The page's URL with the token behind `#`, which no server or proxy gets and the page removes; for a terminal only."""
        return url if self._token is None else f"{url}/#token={self._token.value}"

    def open(self, url: str, terminal: TextIO | None = None) -> None:
        """Write the files and announce the address; the caller has the directory open."""
        if self._data_dir is None:
            self._note(url)
            return
        if self._token is not None:
            self._token.write_if_new()
        if terminal is not None:
            self._say(url, terminal)
        self._note(url)
        # Last: whoever waits for the file finds everything else done.
        announce(self._data_dir, Endpoint(url, os.getpid()))
        self._is_open = True

    def _note(self, url: str) -> None:
        """Let commands of this user find the meter without a word of where it is."""
        data_dir = None if self._data_dir is None else str(self._data_dir.resolve())
        self._noted = RunningMeter(url, os.getpid(), data_dir)
        note(self._noted)

    def _say(self, url: str, terminal: TextIO) -> None:
        """Print the page's address, with the token on a terminal, otherwise with the path of its file."""
        if self._token is None:
            return
        if terminal.isatty():
            terminal.write(f"page: {self.link(url)}\n")
            terminal.flush()
        else:
            logger.info("token of all scopes is kept in a file", extra={"path": str(self._token.path)})

    def close(self) -> None:
        """Remove the address; the token stays."""
        if self._noted is not None:
            forget(self._noted)
        if self._is_open and self._data_dir is not None:
            withdraw(self._data_dir, os.getpid())


class Served(Protocol):
    """A server that is not started."""

    @property
    def url(self) -> str:
        """Where it listens, once it is started."""
        ...

    async def start(self) -> None:
        """Listen."""
        ...

    async def stop(self) -> None:
        """Stop listening."""
        ...


@asynccontextmanager
async def served(server: Served, access: LocalAccess, terminal: TextIO | None = None) -> AsyncIterator[str]:
    """Serve the page and the API of a store that is open; other commands find them by the store's directory."""
    await server.start()
    try:
        access.open(server.url, terminal)
        yield server.url
    finally:
        access.close()
        await server.stop()
