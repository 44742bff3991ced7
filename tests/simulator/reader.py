"""Prices and controls as every worker reads them, with the real reader's own way of folding them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import orjson

from streams.engine.batch import LogRecord
from streams.topics import REFERENCE_TOPICS
from streams.worker.reference.reference_reader import ReferenceReader
from tests.simulator.consumer import PREFIX
from tests.simulator.log import Log, Part
from tests.simulator.process import Process

if TYPE_CHECKING:
    from streams.worker.shard_manager import ShardManager


class FakeMessage:
    """As much of a message as the reader asks for."""

    def __init__(self, topic: str, record: LogRecord) -> None:
        self._topic = topic
        self._record = record

    def topic(self) -> str:
        return PREFIX + self._topic

    def offset(self) -> int:
        return self._record.offset

    def value(self) -> bytes | None:
        return self._record.value

    def timestamp(self) -> tuple[int, int]:
        return 2, self._record.timestamp

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self._record.headers)

    def key(self) -> bytes:
        """By the contract: `kind` + "/" + name, for controls."""
        if self._topic != "controls" or not self._record.value:
            return b""
        try:
            value = orjson.loads(self._record.value)
        except orjson.JSONDecodeError:
            return b""
        named = isinstance(value, dict) and "kind" in value
        return f"{value['kind']}/{value['name']}".encode() if named else b""


class FakeReader:
    """One worker's; it reads everything before anything else is read, then follows."""

    shard_manager: ShardManager

    def __init__(
        self, process: Process, log: Log, every_ms: int, newest_allowed_ms: Callable[[int], int]
    ) -> None:
        self._process = process
        self._log = log
        self._every_ms = every_ms
        self._positions = {Part(str(topic), 0): 0 for topic in REFERENCE_TOPICS}
        self._reader = ReferenceReader({}, PREFIX, newest_allowed_ms, lambda _: None, lambda _: None)
        #: Everything appended up to here was read.
        self.read_until_ms = -1

    @property
    def positions(self) -> dict[str, int]:
        """How far each topic was read."""
        return {part.topic: position for part, position in self._positions.items()}

    async def read_all(self) -> None:
        """Read what is there."""
        await asyncio.sleep(self._process.world.pause(5, 500) / 1000)
        self._read()

    async def follow(self) -> None:
        """Read on for ever."""
        while True:
            await asyncio.sleep(self._process.world.pause(self._every_ms / 4, self._every_ms) / 1000)
            self._read()

    def _read(self) -> None:
        now_ms = self._process.world.now_ms
        messages: list[Any] = []
        for part in self._positions:
            self._positions[part], records = self._log.read(part, self._positions[part], now_ms, 10_000)
            messages += [FakeMessage(part.topic, record) for record in records]
        if messages:
            self.shard_manager.on_reference_changes(self._reader._fold(cast("Any", messages)))
        self.read_until_ms = now_ms
