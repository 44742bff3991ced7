"""Receives large fetch responses into the memory that the records are then read from, without copies.

asyncio's reader keeps what comes in a buffer that grows, gives a copy of it, and aiokafka copies each partition's part
out of that: four times all bytes of a fetch, with the interpreter's lock held, while the agent wants it for the batches
before.  Answers that are not large take asyncio's and aiokafka's way.  It must not look at what it receives.
"""

from __future__ import annotations

import asyncio
import io
from types import MethodType, SimpleNamespace
from typing import Any, Final

import numpy as np
from aiokafka import conn

from streams.transport.function_copy import rebound

#: From here on an answer is large, and a part of one stays where it is: no name or text of the protocol is so long.
LARGE_BYTES: Final = 64 * 2**10
#: Of an answer whose size is not yet read so much may come with its beginning.
_SMALL_BYTES: Final = 16 * 2**10

_own_protocol: Final[Any] = conn.AIOKafkaProtocol
_own_bytes_io: Final = io.BytesIO


class FrameReader(asyncio.StreamReader):
    """As asyncio's, but that a large piece is a memoryview that was received into."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._small = memoryview(bytearray(_SMALL_BYTES))
        self._rest: memoryview | None = None  # of a large piece, what is to come of it
        self._came: asyncio.Future[None] | None = None

    def next_buffer(self) -> memoryview:
        """Where the next bytes go."""
        return self._small if self._rest is None else self._rest

    def received(self, count: int) -> None:
        """So many bytes are in the room that was given."""
        if self._rest is None:
            self.feed_data(bytes(self._small[:count]))
            return
        self._rest = self._rest[count:]
        if not len(self._rest):
            self._rest = None
            self._end_wait()

    def feed_eof(self) -> None:
        """No more will come."""
        super().feed_eof()
        self._end_wait()

    def set_exception(self, exc: Exception) -> None:
        """Whoever waits gets this."""
        super().set_exception(exc)
        self._end_wait()

    def _end_wait(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    async def readexactly(self, n: int) -> Any:
        """So many bytes: as they are, or of a large piece a view.  Raises IncompleteReadError at the end of the stream."""
        if n < LARGE_BYTES:
            return await super().readexactly(n)
        # Memory that nobody has written to: clearing it would cost as much as a copy.
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
        return bool(self._buffer)  # type: ignore[attr-defined]  # asyncio's own, which says nowhere else what it holds

    async def _is_complete(self) -> None:
        if self._eof or self.exception() is not None:  # type: ignore[attr-defined]  # as above
            return
        self._came = asyncio.get_running_loop().create_future()
        try:
            await self._came
        finally:
            self._came = None


class FrameProtocol(_own_protocol, asyncio.BufferedProtocol):  # type: ignore[misc]  # aiokafka has no types here
    """aiokafka's protocol, for which a transport asks where to put what it receives."""

    def __init__(self, closed: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
        self.frames = FrameReader(loop)
        super().__init__(closed, self.frames, loop=loop)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self.frames.next_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """They are there."""
        self.frames.received(nbytes)


class Body:
    """A large answer, as aiokafka reads it: large parts of it are views, all else is bytes."""

    def __init__(self, whole: memoryview) -> None:
        self._whole = whole
        self._at = 0

    def read(self, size: int = -1) -> bytes | memoryview:
        """The next `size` bytes, or what is left."""
        end = len(self._whole) if size < 0 else min(self._at + size, len(self._whole))
        part = self._whole[self._at : end]
        self._at = end
        return part if len(part) >= LARGE_BYTES else bytes(part)


def _body(received: Any) -> Any:
    return Body(received) if isinstance(received, memoryview) else _own_bytes_io(received)


def _protocol(closed: asyncio.Future[None], reader: asyncio.StreamReader, *, loop: Any) -> FrameProtocol:
    """In place of the class; the connection makes a reader of its own, which stays empty."""
    return FrameProtocol(closed, loop)


class KafkaConnection(conn.AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types here
    """aiokafka's, which reads what the protocol above received."""

    connect = rebound(conn.AIOKafkaConnection.connect, AIOKafkaProtocol=_protocol)
    _handle_frame = rebound(conn.AIOKafkaConnection._handle_frame, io=SimpleNamespace(BytesIO=_body))

    def _create_reader_task(self) -> Any:
        self._reader = self._protocol.frames
        return super()._create_reader_task()


_create_conn: Final = rebound(conn.create_conn, AIOKafkaConnection=KafkaConnection)


def watch(client: Any) -> None:
    """Receive large answers this way in all connections to brokers that this client makes from now on."""
    client._get_conn = MethodType(rebound(type(client)._get_conn, create_conn=_create_conn), client)
