"""A proxy between Kafka's clients and a broker that gives answers that are true for a moment only.

It changes answers or gives them itself, in the order of each connection; what it does not change goes through as it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.kafka import wire

_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">hhi")
_LONGEST_BYTES: Final = 200 * 2**20

#: Changes the fields of an answer.
Change = Callable[[dict[str, Any]], None]


class Momentary(NamedTuple):
    """One kind of answer; `instead` gives it without asking the broker, whose state would change."""

    change: dict[int, Change]
    instead: dict[int, int] = {}  # noqa: RUF012 - a tuple's default; API key -> error code


def _topics(change: Callable[[dict[str, Any]], None], only: str = "") -> dict[int, Change]:
    def changed(found: dict[str, Any]) -> None:
        for topic in found["topics"]:
            if topic["name"] is not None and topic["name"].endswith(only):
                change(topic)

    return {wire.METADATA: changed}


def _left_out(found: dict[str, Any]) -> None:
    found["topics"] = [topic for topic in found["topics"] if not (topic["name"] or "").endswith("nodes")]


def _with(code: int) -> Callable[[dict[str, Any]], None]:
    return lambda topic: topic.update(error=code, partitions=[])


def _leaderless(topic: dict[str, Any]) -> None:
    for place in topic["partitions"]:
        place.update(error=LEADER_NOT_AVAILABLE, leader=-1)


def _earlier(topic: dict[str, Any]) -> None:
    for place in topic["partitions"]:
        if "epoch" in place:
            place["epoch"] = max(place["epoch"] - 1, -1)


def _places(code: int) -> Change:
    """Refuse every partition of a fetch, of a question for offsets, of a commit."""

    def changed(found: dict[str, Any]) -> None:
        for topic in found.get("topics") or [t for group in found["groups"] for t in group["topics"]]:
            for place in topic["partitions"]:
                place["error"] = code
                if "records" in place:
                    place.update(high_watermark=-1, stable=-1, start=-1, aborted=[], records=b"")
                if "timestamp" in place:
                    place.update(timestamp=-1, offset=-1)

    return changed


def _coordinator(code: int) -> Change:
    def changed(found: dict[str, Any]) -> None:
        for each in found.get("coordinators", [found]):
            each.update(error=code, node=-1, host="", port=-1)

    return changed


OUT_OF_RANGE, UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER, STORAGE_ERROR = 1, 3, 5, 6, 56
LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, REBALANCING = 14, 15, 16, 27
FENCED_EPOCH, UNKNOWN_EPOCH, OFFSET_NOT_AVAILABLE, UNKNOWN_TOPIC_ID = 74, 75, 78, 100
_READ: Final = (wire.FETCH, wire.LIST_OFFSETS)
_GROUP: Final = (wire.JOIN_GROUP, wire.SYNC_GROUP, wire.HEARTBEAT)


def _read(code: int) -> Momentary:
    return Momentary(dict.fromkeys(_READ, _places(code)))


def _group(code: int) -> Momentary:
    asked = {wire.OFFSET_COMMIT: _places(code), wire.OFFSET_FETCH: _places(code)}
    return Momentary(asked, dict.fromkeys(_GROUP, code))


KINDS: Final[dict[str, Momentary]] = {
    "a topic unknown": Momentary(_topics(_with(UNKNOWN_TOPIC), "nodes")),
    "all topics unknown": Momentary(_topics(_with(UNKNOWN_TOPIC))),
    "a topic left out": Momentary({wire.METADATA: _left_out}),
    "topics without leader": Momentary(_topics(_with(LEADER_NOT_AVAILABLE))),
    "partitions without leader": Momentary(_topics(_leaderless)),
    "fewer partitions": Momentary(_topics(lambda topic: topic.update(partitions=topic["partitions"][:1]))),
    "no brokers": Momentary({wire.METADATA: lambda found: found.update(brokers=[])}),
    "topic ids unknown": Momentary(
        {**_topics(_with(UNKNOWN_TOPIC_ID)), wire.FETCH: _places(UNKNOWN_TOPIC_ID)}
    ),
    "an earlier epoch": Momentary({**_topics(_earlier), wire.FETCH: _places(FENCED_EPOCH)}),
    "an epoch not known yet": _read(UNKNOWN_EPOCH),
    "another leader": _read(NOT_LEADER),
    "partitions unknown": _read(UNKNOWN_TOPIC),
    "offsets not available": _read(OFFSET_NOT_AVAILABLE),
    "a disk that fails": _read(STORAGE_ERROR),
    "no coordinator": Momentary(
        {
            wire.FIND_COORDINATOR: _coordinator(COORDINATOR_NOT_AVAILABLE),
            **_group(COORDINATOR_NOT_AVAILABLE).change,
        },
        _group(COORDINATOR_NOT_AVAILABLE).instead,
    ),
    "another coordinator": _group(NOT_COORDINATOR),
    "a group that loads": _group(LOADING),
    "a group that rebalances": _group(REBALANCING),
    # Not longer than the meter asks again: then it is true.
    "offsets out of range": Momentary({wire.FETCH: _places(OUT_OF_RANGE)}),
}


@dataclass
class _Asked:
    """A request whose answer is due."""

    key: int
    version: int
    correlation: bytes
    answer: bytes | None = None  # given without the broker


class Proxy:
    """Takes the connections of a socket from `start` until `stop`; `give` makes it give such answers for a while."""

    def __init__(self, broker_port: int, listening: socket.socket) -> None:
        self._broker_port = broker_port
        self._socket = listening  # remains the caller's, so that nobody else gets its port
        self._server: asyncio.Server | None = None
        #: How many answers of each kind were given.
        self.given: Counter[str] = Counter()
        #: (API key, version, client) of all requests.
        self.asked: Counter[tuple[int, int, str]] = Counter()
        self._until_s: dict[str, float] = {}
        self._clients: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        listening = asyncio.start_server(self._serve, sock=self._socket.dup())
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)

    def stop(self) -> None:
        """Close everything."""

        def end() -> None:
            if self._server is not None:
                self._server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.2, self._loop.stop)

        self._loop.call_soon_threadsafe(end)
        self._thread.join(10)
        self._loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def give(self, kind: str, for_s: float) -> None:
        """Give such answers from now on, for so long."""
        assert kind in KINDS, kind
        self._until_s[kind] = time.monotonic() + for_s

    def hang_up(self) -> None:
        """Break all connections, as a broker that restarts does: clients learn anew who leads what."""

        def abort() -> None:
            for client in self._clients:
                client.transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def _active(self) -> list[str]:
        now_s = time.monotonic()
        return [kind for kind, until_s in list(self._until_s.items()) if now_s < until_s]

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._clients.add(to_client)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
            due: asyncio.Queue[_Asked] = asyncio.Queue()
            pumps = [
                asyncio.ensure_future(self._requests(client, to_broker, due)),
                asyncio.ensure_future(self._answers(broker, to_client, due)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                to_broker.close()
        self._clients.discard(to_client)
        to_client.close()

    async def _requests(
        self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, due: asyncio.Queue[_Asked]
    ) -> None:
        while True:
            frame = await read_frame(client)
            key, version, _ = _REQUEST.unpack_from(frame)
            asked = _Asked(key, version, frame[4:8])
            self.asked[key, version, client_of(frame)] += 1
            kind = next((kind for kind in self._active() if key in KINDS[kind].instead), None)
            if kind is not None:
                self.given[kind] += 1
                asked.answer = wire.write_answer(key, version, {"error": KINDS[kind].instead[key]})
            else:
                to_broker.write(_SIZE.pack(len(frame)) + frame)
                await to_broker.drain()
            due.put_nowait(asked)

    async def _answers(
        self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter, due: asyncio.Queue[_Asked]
    ) -> None:
        while True:
            asked = await due.get()
            header = asked.correlation + (b"\0" if wire.is_flexible(asked.key, asked.version) else b"")
            if asked.answer is not None:
                answer = header + asked.answer
            else:
                answer = await read_frame(broker)
                changes = [kind for kind in self._active() if asked.key in KINDS[kind].change]
                if changes:
                    answer = answer[: len(header)] + self._changed(asked, answer[len(header) :], changes)
            to_client.write(_SIZE.pack(len(answer)) + answer)
            await to_client.drain()

    def _changed(self, asked: _Asked, body: bytes, kinds: list[str]) -> bytes:
        found = wire.read_answer(asked.key, asked.version, body)
        for kind in kinds:
            KINDS[kind].change[asked.key](found)
            self.given[kind] += 1
        return wire.write_answer(asked.key, asked.version, found)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next request or answer, without its size."""
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    assert 0 < size < _LONGEST_BYTES, size
    return await reader.readexactly(size)


def client_of(frame: bytes) -> str:
    """The client id of a request, without its size."""
    (length,) = struct.unpack_from(">h", frame, 8)
    return frame[10 : 10 + max(length, 0)].decode(errors="replace")
