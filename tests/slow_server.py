"""A server that answers without an end: byte by byte, or always with one more message. Each asker must give it up by itself."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#: What comes first, and then again and again.
ENDLESS: Final = {
    "a body of few bytes at a time": (_HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
    "chunks without an end": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a status line of few bytes at a time": (b"", b"H"),
    "headers without an end": (_HEAD, b"X-More: 1\r\n"),
    "a header line without an end": (_HEAD + b"X-More: ", b"1"),
    "interim answers without an end": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body that stands still": (_HEAD + b"Content-Length: 1000000\r\n\r\n ", b""),
    "silence": (b"", b""),
}
_PAUSE_S: Final = 0.02


@contextmanager
def endless(kind: str, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Return the address of a server that answers so, to any number of askers."""
    first, again = ENDLESS[kind]
    stop = threading.Event()

    def answer(opened: socket.socket) -> None:
        with suppress(OSError), opened:
            asked = opened if tls is None else tls.wrap_socket(opened, server_side=True)
            asked.recv(65_536)
            asked.sendall(first)
            while not stop.wait(_PAUSE_S):
                asked.sendall(again)

    def accept() -> None:
        with suppress(OSError):
            while True:
                opened, _ = listening.accept()
                threading.Thread(target=answer, args=(opened,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        try:
            scheme, host = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
            yield f"{scheme}://{host}:{listening.getsockname()[1]}"
        finally:
            stop.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
