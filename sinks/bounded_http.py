"""Connections of urllib3 on which a whole answer, from the request to the last byte, has a deadline.

Timeouts of a socket begin anew with each byte: a peer that drips a status line, headers or a body, or sends `100 Continue`
without end, would hold its asker for ever. Names' resolution is not counted.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

#: Returns a monotonic time in s.
Monotonic: TypeAlias = Callable[[], float]
_SHORTEST_S: Final = 0.001


class BoundedPool(urllib3.PoolManager):
    """A pool each of whose requests ends within `answer_s`: with urllib3's HTTPError or a TimeoutError where it is not done.

    `answer_s` may be changed between requests of one thread.
    """

    def __init__(self, answer_s: float, *, monotonic_s: Monotonic = time.monotonic, **options: Any) -> None:
        """`options` are those of urllib3's PoolManager; its `timeout` says how long a peer may be silent."""
        super().__init__(**options)
        self.answer_s = answer_s
        self._monotonic_s = monotonic_s
        self.pool_classes_by_scheme = {
            "http": self._pool_of(urllib3.HTTPConnectionPool, HTTPConnection),
            "https": self._pool_of(urllib3.HTTPSConnectionPool, HTTPSConnection),
        }

    def _pool_of(self, pool: type[Any], connection: type[Any]) -> type[Any]:
        """A class of urllib3's pools of which each connection has a deadline, that of its latest request."""
        owner = self

        def connect(self: Any) -> None:
            connection.connect(self)
            self.sock = _Bounded(self.sock, lambda: float(self.by_s) - owner._monotonic_s())

        def request(self: Any, *args: Any, **kwargs: Any) -> None:
            self.by_s = owner._monotonic_s() + owner.answer_s
            connection.request(self, *args, **kwargs)

        bounded = type(
            f"Bounded{connection.__name__}", (connection,), {"connect": connect, "request": request}
        )
        return type(f"Bounded{pool.__name__}", (pool,), {"ConnectionCls": bounded})


class _Bounded:
    """A socket as far as http.client and urllib3 use one; each of its waits ends at the deadline of the request."""

    def __init__(self, opened: socket.socket, left_s: Callable[[], float]) -> None:
        self._socket = opened
        self._left_s = left_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def sendall(self, data: Any) -> None:
        """Send all of it, or fail at the deadline."""
        with _Wait(self._socket, self._left_s):
            self._socket.sendall(data)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """The answer as a file; like that of a socket it may outlive the connection."""
        return io.BufferedReader(_AnswerFile(self._socket, self._left_s))


class _AnswerFile(io.RawIOBase):
    """The bytes of one answer."""

    def __init__(self, opened: socket.socket, left_s: Callable[[], float]) -> None:
        self._socket = opened
        self._left_s = left_s
        self._raw: Any = opened.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        with _Wait(self._socket, self._left_s):
            found: int | None = self._raw.readinto(buffer)
            return found

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Wait:
    """Shortens the timeout of a socket to what is left until the deadline, for one call."""

    def __init__(self, opened: socket.socket, left_s: Callable[[], float]) -> None:
        self._socket = opened
        self._left_s = left_s
        self._usual_s: float | None = None

    def __enter__(self) -> None:
        left_s = self._left_s()
        if left_s <= 0:
            raise TimeoutError("no whole answer by the deadline")
        self._usual_s = self._socket.gettimeout()
        self._socket.settimeout(
            max(left_s if self._usual_s is None else min(left_s, self._usual_s), _SHORTEST_S)
        )

    def __exit__(self, *_: object) -> None:
        if self._socket.fileno() >= 0:
            self._socket.settimeout(self._usual_s)
