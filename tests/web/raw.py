"""Sockets that speak HTTP badly, as slowly and as much as a test wants, from the loop of the server that they speak to."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

WITHIN_S = 20


class Raw:
    """One connection."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.line, data)

    async def rest(self) -> bytes:
        """Everything up to the server's end of it; the connection must end."""
        found = b""
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    data = await asyncio.get_running_loop().sock_recv(self.line, 65_536)
                except ConnectionResetError:
                    return found
                if not data:
                    return found
                found += data

    async def until(self, text: bytes) -> bytes:
        """What comes up to a text."""
        found = b""
        async with asyncio.timeout(WITHIN_S):
            while text not in found:
                data = await asyncio.get_running_loop().sock_recv(self.line, 65_536)
                assert data, found
                found += data
        return found

    def close(self) -> None:
        self.line.close()


async def connected(url: str, *, receive_bytes: int | None = None) -> Raw:
    """Connect to a server."""
    parts = urlsplit(url)
    line = socket.socket()
    if receive_bytes is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    line.setblocking(False)
    await asyncio.get_running_loop().sock_connect(line, (parts.hostname, parts.port))
    return Raw(line)


def connected_at_once(url: str, *sent: bytes) -> list[Raw]:
    """Connections that send before the loop has its turn."""
    parts, raws = urlsplit(url), list[Raw]()
    for data in sent:
        line = socket.create_connection((parts.hostname, parts.port))
        line.sendall(data)
        line.setblocking(False)
        raws.append(Raw(line))
    return raws


async def turns() -> None:
    """Let the loop see all that was sent."""
    for _ in range(20):
        await asyncio.sleep(0)


def request(path: str, *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    """A whole request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def parsed(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """The status, headers and JSON of an answer that ends with its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, json.loads(body)
