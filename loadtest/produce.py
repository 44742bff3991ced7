"""Sends prepared record batches to one broker as fast as it takes them: a socket, no client in between.

It asks nobody for leaders, and a fault ends it, but for a broker that has lost sight of its controller for a
while, as happens on a busy machine.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

_PRODUCE: Final = 0
_VERSION: Final = 3
_IN_FLIGHT: Final = 8
_TIMEOUT_MS: Final = 30_000
_CLIENT: Final = b"trainfare-fleet"
#: No leader, or not this one, for now: nothing of the batch was stored.
_LATER: Final = (5, 6)
_AGAIN_S: Final = 0.2
_TIMES: Final = 300


class Batch(NamedTuple):
    """A record batch and the partition that it is for."""

    partition: int
    data: memoryview


class BatchProducer:
    """Use it as a context manager; leaving it waits for what is in flight."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
        self._address = (host, int(port))
        self._topic = topic.encode()
        self._socket: socket.socket | None = None
        self._waiting: deque[tuple[int, Sequence[Batch]]] = deque()
        self._number = 0
        self.sent_again = 0

    def send(self, batches: Sequence[Batch]) -> None:
        """Send batches of different partitions in one request; waits for the oldest if too many are in flight."""
        while len(self._waiting) >= _IN_FLIGHT:
            self._settle()
        self._send(batches)

    def _send(self, batches: Sequence[Batch]) -> None:
        assert self._socket is not None
        self._number += 1
        name = struct.pack(">h", len(self._topic)) + self._topic
        head = struct.pack(">hhih", _PRODUCE, _VERSION, self._number, len(_CLIENT)) + _CLIENT
        # No transaction; acknowledged by the leader, which is the only copy here.
        head += struct.pack(">hhii", -1, 1, _TIMEOUT_MS, 1) + name + struct.pack(">i", len(batches))
        parts: list[bytes | memoryview] = [head]
        for batch in batches:
            parts += [struct.pack(">ii", batch.partition, len(batch.data)), batch.data]
        size = sum(len(part) for part in parts)
        self._socket.sendall(struct.pack(">i", size) + b"".join(parts))
        self._waiting.append((self._number, batches))

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        while self._waiting:
            self._settle()

    def _settle(self) -> None:
        """Read the oldest answer; what was refused for now is sent again, behind what is in flight."""
        again = self._read()
        if again:
            self.sent_again += 1
            if self.sent_again > _TIMES:
                raise OSError("the broker has no leader for a partition for too long")
            time.sleep(_AGAIN_S)
            self._send(again)

    def _read(self) -> list[Batch]:
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(size)
        (number,) = struct.unpack_from(">i", answer)
        sent, batches = self._waiting.popleft()
        if number != sent:
            raise OSError("the broker answers out of order")
        at = 8 + 2 + len(self._topic)
        (partitions,) = struct.unpack_from(">i", answer, at)
        refused = set()
        for index in range(partitions):
            partition, code = struct.unpack_from(">ih", answer, at + 4 + index * 22)
            if code in _LATER:
                refused.add(partition)
            elif code:
                raise OSError(f"the broker refused a batch for partition {partition}: error {code}")
        return [batch for batch in batches if batch.partition in refused]

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        found = bytearray()
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            if not part:
                raise OSError("the broker closed the connection")
            found += part
        return bytes(found)

    def __enter__(self) -> Self:
        self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_MS / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
