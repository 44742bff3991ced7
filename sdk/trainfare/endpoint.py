"""One request to the endpoint, and what came of it.

It must not follow redirects, use proxies, take longer than a request may, or show the token in what it reports.
"""

from __future__ import annotations

# A name's lookup would import it in the thread that sends; a process forked meanwhile would wait for that import for ever.
import encodings.idna  # noqa: F401 - as said
import http.client
import io
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

REQUEST_S = 10.0
_ANSWER_BYTES = 2**20
#: Answers after which the same events are sent again.
_TRY_LATER = (408, 425, 429, 500, 502, 503, 504)
#: Answers that refuse these very events; others refuse whatever this process sends.
_OF_THE_EVENTS = (400, 413, 415, 422)

DONE, LATER, NEVER, STOP = "done", "later", "never", "stop"


@dataclass(frozen=True)
class Outcome:
    """`kind`: DONE; LATER, try again; NEVER, these events are refused; STOP, this process is (its token, its address)."""

    kind: str
    fault: str = ""  #: what went wrong, without secrets
    refused: int = 0  #: events that the endpoint does not take, of those of a DONE


class Endpoint:
    """Where events go: `POST URL/api/v1/events`, and what can be read below URL."""

    def __init__(self, url: str, token: str, request_s: float = REQUEST_S) -> None:
        """`request_s`: what a whole request may take, the names' resolution not counted."""
        self._token = token
        self._request_s = request_s
        self.fault = ""  #: why nothing can be sent to this address at all
        self._host, self._port, self._path, self._is_tls = "", 0, "", False
        try:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError
            self._host, self._is_tls = parts.hostname, parts.scheme == "https"
            self._port = parts.port or (443 if self._is_tls else 80)
            self._path = parts.path.rstrip("/")
        except Exception:
            self.fault = "invalid URL; expected something like http://127.0.0.1:8787"

    def __repr__(self) -> str:
        """Without the token."""
        return f"Endpoint({self._host}:{self._port})"

    def post(self, events: Sequence[bytes]) -> Outcome:
        """Send events, each a JSON object with its topic."""
        if self.fault:
            return Outcome(STOP, self.fault)
        try:
            return self._answered(*self._exchange("POST", "/api/v1/events", b"[" + b",".join(events) + b"]"))
        except Exception as fault:  # whatever a network does
            return Outcome(LATER, _described(fault))

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of what the endpoint answers to a path.

        Raises:
            Exception: Whatever a network does, and ValueError for an invalid URL.
        """
        if self.fault:
            raise ValueError(self.fault)
        return self._exchange("GET", path, None)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        by_s = time.monotonic() + self._request_s
        kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._request_s)
        connection.connect()
        opened = connection.sock
        try:
            bounded: Any = _Bounded(opened, by_s)
            connection.sock = bounded
            headers = {"Content-Type": "application/json", "Connection": "close"}
            if self._token:
                headers["Authorization"] = "Bearer " + self._token
            connection.request(method, self._path + path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_ANSWER_BYTES)
        finally:
            opened.close()

    @staticmethod
    def _answered(status: int, body: bytes) -> Outcome:
        if status // 100 == 2:
            refused = json.loads(body).get("refused", [])
            return Outcome(DONE, _detail(refused), len(refused))
        if status in _TRY_LATER:
            return Outcome(LATER, f"answered {status}")
        return Outcome(NEVER if status in _OF_THE_EVENTS else STOP, f"answered {status}")


class _Bounded:
    """A socket for `http.client` that gives up at an instant, however slowly bytes come."""

    def __init__(self, opened: socket.socket, by_s: float) -> None:
        self._socket = opened
        self._by_s = by_s

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(max(self._by_s - time.monotonic(), 0.001))
        self._socket.sendall(data)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._socket, self._by_s))

    def close(self) -> None:
        """Leave it to whoever opened it."""


class _Reader(io.RawIOBase):
    def __init__(self, opened: socket.socket, by_s: float) -> None:
        self._socket = opened
        self._by_s = by_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(max(self._by_s - time.monotonic(), 0.001))
        return self._socket.recv_into(buffer)


def _described(fault: Exception) -> str:
    """Texts of a system's errors are safe; others may repeat a header, and so the token."""
    if isinstance(fault, OSError) and fault.strerror:
        return f"{type(fault).__name__}: {fault.strerror}"
    return type(fault).__name__


def _detail(refused: Sequence[Any]) -> str:
    return str(refused[0].get("detail", ""))[:500] if refused else ""
