"""What stands on the other side: a listener that counts, a resolver that says what it is told, a failing web server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streams.notify.webhooks import guard


class Listener:
    """Accepts connections on every address of this machine, counts them, and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                self.connections += 1
                peer.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """A listener whose port is one of the allowed, so that only the address stands between."""
    here = Listener()
    monkeypatch.setattr(guard, "PORTS", frozenset((443, here.port)))
    yield here
    here.close()


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a socket is connected to; beyond this machine nobody answers."""
    tried: list[Any] = []
    connect = socket.socket.connect

    def recorded(self: socket.socket, address: Any, /) -> None:
        tried.append(address)
        if not str(address[0]).startswith(("127.", "::1", "0.0.0.0")):
            raise ConnectionRefusedError(111, "nobody there")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", recorded)
    return tried
