"""Sockets that a hostile client has, without anything that would make it polite."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

HOST: Final = "127.0.0.1"
_IP_BIND_ADDRESS_NO_PORT: Final = 24  # Linux; Python 3.11 has no name for it
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLRDHUP


@dataclass(frozen=True)
class Target:
    """The worker that is attacked."""

    port: int
    token: str
    #: Attackers come from so many addresses of the loopback net; 0: from the one that honest clients have.
    addresses: int

    def source(self, number: int) -> str:
        """The address of an attacker."""
        return (
            f"127.1.{number % self.addresses // 250}.{number % self.addresses % 250 + 1}"
            if self.addresses
            else HOST
        )

    def request(self, path: str, *headers: str, body: bytes | None = None) -> bytes:
        """A whole request; with a body it is a POST of JSON with the token."""
        lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: localhost", *headers]
        if body is not None:
            lines += [
                "Content-Type: application/json",
                f"Authorization: Bearer {self.token}",
                f"Content-Length: {len(body)}",
            ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")

    def query(self, sql: str) -> bytes:
        """A request for SQL, after which the connection ends."""
        return self.request("/api/v1/query", "Connection: close", body=json.dumps({"sql": sql}).encode())


@contextmanager
def line_from(address: str, receive_bytes: int | None = None) -> Iterator[socket.socket]:
    """Yield a socket that is not connected yet, and close it at once at the end."""
    line = socket.socket()
    try:
        line.setblocking(False)
        if receive_bytes is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        # The port is chosen when it connects: bound ones would run out.
        line.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        line.bind((address, 0))
        yield line
    finally:
        line.close()


async def connect(line: socket.socket, target: Target) -> None:
    """Connect to the worker."""
    await asyncio.get_running_loop().sock_connect(line, (HOST, target.port))


async def send(line: socket.socket, data: bytes) -> None:
    """Send all of it."""
    await asyncio.get_running_loop().sock_sendall(line, data)


async def receive(line: socket.socket, most_bytes: int = 65_536) -> bytes:
    """What came; empty at the end."""
    return await asyncio.get_running_loop().sock_recv(line, most_bytes)


async def gone(line: socket.socket, look_every_s: float = 1.0) -> None:
    """Return when the other side has closed, without reading a byte of what it sent before."""
    poll = select.poll()
    poll.register(line, _GONE)
    while True:
        if any(events & _GONE for _, events in poll.poll(0)):
            return
        await asyncio.sleep(look_every_s)
