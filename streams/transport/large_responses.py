"""Receives large fetch responses directly into the memory that the records are then read from, without copies.

asyncio's reader collects data in a growing buffer and returns a copy, and aiokafka copies each partition's
part out of that: four times all bytes of a fetch, while holding the interpreter's lock that the agent needs
for earlier batches. Small responses take the path of asyncio and aiokafka.
"""

from __future__ import annotations

import asyncio
import io
from types import MethodType, SimpleNamespace
from typing import Any, Final

import numpy as np
from aiokafka import conn

from streams.transport.function_copy import rebound

#: From this size on a response is large, and a part of one is a view: no name or text of the protocol is this long.
LARGE_BYTES: Final = 64 * 2**10
#: Read at most this much together with the size field of a response.
_SMALL_BYTES: Final = 16 * 2**10

_own_protocol: Final[Any] = conn.AIOKafkaProtocol
_own_bytes_io: Final = io.BytesIO


class FrameReader(asyncio.StreamReader):
    """asyncio's reader, except that a large piece is a memoryview that was received into."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._small = memoryview(bytearray(_SMALL_BYTES))
        self._rest: memoryview | None = None  # the missing part of a large piece
        self._came: asyncio.Future[None] | None = None

    def next_buffer(self) -> memoryview:
        """Where to receive the next bytes."""
        return self._small if self._rest is None else self._rest

    def received(self, count: int) -> None:
        """Record that `count` bytes were received into the buffer."""
        if self._rest is None:
            self.feed_data(bytes(self._small[:count]))
            return
        self._rest = self._rest[count:]
        if not len(self._rest):
            self._rest = None
            self._end_wait()

    def feed_eof(self) -> None:
        """Record the end of the stream."""
        super().feed_eof()
        self._end_wait()

    def set_exception(self, exc: Exception) -> None:
        """Raise this in whoever waits."""
        super().set_exception(exc)
        self._end_wait()

    def _end_wait(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    async def readexactly(self, n: int) -> Any:
        """Exactly `n` bytes; a large piece as a view.

        Raises:
            IncompleteReadError: The stream ended before.
        """
        if n < LARGE_BYTES:
            return await super().readexactly(n)
        # Uninitialised memory: clearing it would cost as much as a copy.
        whole = memoryview(np.empty(n, np.uint8).data).cast("B")
        begun = await super().read(n) if self._buffered() else b""
        whole[: len(begun)] = begun
        if len(begun) < n:
            self._rest = whole[len(begun) :]
            await self._is_complete()
            if self._rest is not None:
                missing, self._rest = len(self._rest), None
                fault = self.exception()
                if fault is not None:
                    raise fault
                raise asyncio.IncompleteReadError(bytes(whole[: n - missing]), n)
        return whole.toreadonly()

    def _buffered(self) -> bool:
        return bool(self._buffer)  # type: ignore[attr-defined]  # asyncio has no public access to its buffer

    async def _is_complete(self) -> None:
        if self._eof or self.exception() is not None:  # type: ignore[attr-defined]  # as above
            return
        self._came = asyncio.get_running_loop().create_future()
        try:
            await self._came
        finally:
            self._came = None


class FrameProtocol(_own_protocol, asyncio.BufferedProtocol):  # type: ignore[misc]  # aiokafka has no types here
    """aiokafka's protocol, which provides the transport with the buffer to receive into."""

    def __init__(self, closed: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
        self.frames = FrameReader(loop)
        super().__init__(closed, self.frames, loop=loop)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to receive the next bytes."""
        return self.frames.next_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Record that they were received."""
        self.frames.received(nbytes)


class Body:
    """A large response in the form that aiokafka parses: large parts are views, all else is bytes."""

    def __init__(self, whole: memoryview) -> None:
        self._whole = whole
        self._at = 0

    def read(self, size: int = -1) -> bytes | memoryview:
        """The next `size` bytes, or the rest."""
        end = len(self._whole) if size < 0 else min(self._at + size, len(self._whole))
        part = self._whole[self._at : end]
        self._at = end
        return part if len(part) >= LARGE_BYTES else bytes(part)


def _body(received: Any) -> Any:
    return Body(received) if isinstance(received, memoryview) else _own_bytes_io(received)


def _protocol(closed: asyncio.Future[None], reader: asyncio.StreamReader, *, loop: Any) -> FrameProtocol:
    """Replace the constructor; the connection creates a reader of its own, which stays empty."""
    return FrameProtocol(closed, loop)


class KafkaConnection(conn.AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types here
    """aiokafka's connection, which reads what the protocol above received."""

    connect = rebound(conn.AIOKafkaConnection.connect, AIOKafkaProtocol=_protocol)
    _handle_frame = rebound(conn.AIOKafkaConnection._handle_frame, io=SimpleNamespace(BytesIO=_body))

    def _create_reader_task(self) -> Any:
        self._reader = self._protocol.frames
        return super()._create_reader_task()


_create_conn: Final = rebound(conn.create_conn, AIOKafkaConnection=KafkaConnection)


def watch(client: Any) -> None:
    """Receive large responses this way in all new connections of this client."""
    client._get_conn = MethodType(rebound(type(client)._get_conn, create_conn=_create_conn), client)
