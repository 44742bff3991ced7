"""Answers of a broker received where they stay: the same bytes as by asyncio's reader, however they are cut on the way."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streams.transport.large_responses import LARGE_BYTES, Body, FrameProtocol, FrameReader
from streams.transport.raw_fetch import FetchedBytes
from tests.tls import server_and_client

SIZES = (0, 1, 3, 16_384, 16_385, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 300_000, 3_000_000)


def frames(seed: int) -> list[bytes]:
    """Of all sizes that matter, in any order."""
    chosen = random.Random(seed)
    sizes = [*SIZES, *(chosen.randrange(2 * LARGE_BYTES) for _ in range(20))]
    chosen.shuffle(sizes)
    return [chosen.randbytes(size) for size in sizes]


async def read_frame(reader: FrameReader) -> Any:
    """As aiokafka's connection reads one."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def with_sender(
    send: Callable[[asyncio.StreamWriter], Awaitable[None]],
    receive: Callable[[FrameReader], Awaitable[None]],
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
) -> None:
    """A server that sends to whoever connects, and a connection that receives."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await send(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls and tls[0])
    loop = asyncio.get_running_loop()
    host, port = server.sockets[0].getsockname()
    transport, protocol = await loop.create_connection(
        lambda: FrameProtocol(loop.create_future(), loop), host, port, ssl=tls and tls[1],
        server_hostname="localhost" if tls else None,
    )  # fmt: skip
    try:
        await receive(protocol.frames)
    finally:
        transport.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("over_tls", [False, True])
def test_frames_are_what_was_sent(seed: int, over_tls: bool) -> None:
    sent = frames(seed)
    chosen = random.Random(seed)

    async def send(writer: asyncio.StreamWriter) -> None:
        log = b"".join(struct.pack(">i", len(frame)) + frame for frame in sent)
        at = 0
        while at < len(log):
            size = chosen.choice((1, 5, 1_000, 70_000, 1_000_000))
            writer.write(log[at : at + size])
            at += size
            await writer.drain()
            await asyncio.sleep(0)

    async def receive(reader: FrameReader) -> None:
        for frame in sent:
            found = await read_frame(reader)
            assert found == frame
            assert isinstance(found, memoryview if len(frame) >= LARGE_BYTES else bytes)
            if isinstance(found, memoryview):
                assert found.readonly
        with pytest.raises(asyncio.IncompleteReadError):
            await read_frame(reader)
        assert reader.at_eof()

    asyncio.run(with_sender(send, receive, server_and_client() if over_tls else None))


@pytest.mark.parametrize("came", [0, 10, 100_000])
def test_a_stream_that_ends_within_a_large_frame_says_how_far_it_came(came: int) -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(struct.pack(">i", 1_000_000) + b"x" * came)
        await writer.drain()

    async def receive(reader: FrameReader) -> None:
        with pytest.raises(asyncio.IncompleteReadError) as ended:
            await read_frame(reader)
        assert (ended.value.partial, ended.value.expected) == (b"x" * came, 1_000_000)

    asyncio.run(with_sender(send, receive))


def test_a_stream_that_breaks_within_a_large_frame_gives_the_fault() -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(struct.pack(">i", 1_000_000) + b"x" * 100_000)
        await writer.drain()
        await asyncio.sleep(0.05)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER of no time: a reset instead of an end
        writer.transport.abort()

    async def receive(reader: FrameReader) -> None:
        with pytest.raises(ConnectionResetError):
            await read_frame(reader)

    asyncio.run(with_sender(send, receive))


def test_of_an_answer_only_large_parts_are_views() -> None:
    whole = random.Random(1).randbytes(300_000)
    body = Body(memoryview(whole))
    names, records, rest = body.read(100), body.read(200_000), body.read()
    assert (names, records, rest) == (whole[:100], whole[100:200_100], whole[200_100:])
    assert [type(part) for part in (names, records, rest)] == [bytes, memoryview, memoryview]
    assert body.read(5) == b""


@pytest.mark.parametrize("cut", [0, 8, 11, 12, 17, 60, 61, 62, 200])
def test_whether_a_batch_is_there_is_answered_as_aiokafka_does(cut: int) -> None:
    batch = struct.pack(">qi", 5, 49) + b"\2" * 49
    fetched = (batch + batch)[:cut]
    ours = FetchedBytes(fetched)
    theirs = ours.own
    assert (ours.has_next(), ours.size_in_bytes()) == (theirs.has_next(), theirs.size_in_bytes())
