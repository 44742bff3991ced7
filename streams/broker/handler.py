"""What the broker answers to each request.

Times are of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from sinks.errors import SinkError
from streams.broker import protocol
from streams.broker.group import ConsumerGroup, IllegalGenerationError, UnknownMemberError
from streams.segmented_log.directory import LogDirectory
from streams.segmented_log.errors import BadBatchError, LogError, OffsetOutOfRangeError
from streams.segmented_log.frames import Place

logger = logging.getLogger(__name__)

_NODE: Final = 0
_EARLIEST: Final = -2
_UNKNOWN: Final = -1
_TOPIC_RESOURCE: Final = 2
#: Of one answer, whatever its client asks for; as much as Kafka's own brokers give.
_FETCH_MAX_BYTES: Final = 55 * 2**20
#: A fetch that waits looks again so long after the first new records: more may come meanwhile.
_GATHER_S: Final = 0.01


class RequestHandler:
    """RequestHandler of one broker; all in one event loop.

    Args:
        log: The log.
        group: The consumer group.
        partitions: Topic -> number of partitions, for those that exist.
        prefix: Of the topics' names on the wire.
        address: Host and port of the broker.
    """

    def __init__(
        self,
        log: LogDirectory,
        group: ConsumerGroup,
        partitions: Mapping[str, int],
        prefix: str,
        address: Callable[[], tuple[str, int]],
    ) -> None:
        self._log = log
        self._group = group
        self._partitions = partitions
        self._prefix = prefix
        self._address = address
        self._appended = asyncio.Event()
        self._answer: dict[int, Callable[[Any], Any]] = {
            protocol.METADATA: self._metadata,
            protocol.DESCRIBE_CONFIGS: self._configs,
            protocol.LIST_OFFSETS: self._offsets,
            protocol.FIND_COORDINATOR: self._coordinator,
            protocol.JOIN_GROUP: self._join,
            protocol.SYNC_GROUP: self._sync,
            protocol.HEARTBEAT: self._heartbeat,
            protocol.LEAVE_GROUP: self._leave,
            protocol.OFFSET_COMMIT: self._commit,
            protocol.OFFSET_FETCH: self._committed,
            protocol.INIT_PRODUCER_ID: lambda _body: (protocol.NONE, secrets.randbits(62), 0),
        }

    async def of(self, request: protocol.BrokerRequest) -> tuple[Any, ...] | None:
        """The fields of the answer; None: the client wants none."""
        if request.api_key == protocol.FETCH:
            return await self._fetch(request.body)
        if request.api_key == protocol.PRODUCE:
            return await self._produce(request.body)
        fields: tuple[Any, ...] = self._answer[request.api_key](request.body)
        return fields

    def appended(self) -> None:
        """Wake the fetches that wait; called in the event loop."""
        self._appended.set()
        self._appended = asyncio.Event()

    # -- records -------------------------------------------------------------------------------------------

    async def _produce(self, body: Any) -> tuple[Any, ...] | None:
        waiting: list[tuple[str, int, Future[list[int]] | None]] = []
        for name, partitions in body.topics:
            for partition, batch in partitions:
                place = self._place(name, partition)
                # Before the first await: batches of one client stay in their order.
                future = None if place is None else self._log.append([(place, batch or b"")])[0]
                waiting.append((name, partition, future))
        answers: dict[str, list[tuple[int, int, int, int, int]]] = {}
        for name, partition, future in waiting:
            error, offset = await self._appended_at(future)
            answers.setdefault(name, []).append((partition, error, offset, _UNKNOWN, 0))
        return None if body.required_acks == 0 else (list(answers.items()), 0)

    async def _appended_at(self, future: Future[list[int]] | None) -> tuple[int, int]:
        if future is None:
            return protocol.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
        try:
            (offset,) = await asyncio.wrap_future(future)
        except BadBatchError:
            return protocol.CORRUPT_MESSAGE, _UNKNOWN
        except LogError as fault:
            logger.info("batch of a client is not taken", extra={"reason": str(fault)})
            return protocol.KAFKA_STORAGE_ERROR, _UNKNOWN
        return protocol.NONE, offset

    async def _fetch(self, body: Any) -> tuple[Any, ...]:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + body.max_wait_time / 1000
        while True:
            appended = self._appended
            await self._settled()
            size, answers = self._collected(body)
            left_s = deadline_s - loop.time()
            if size is None or size >= body.min_bytes or left_s <= 0:
                return protocol.NONE, 0, answers
            try:
                async with asyncio.timeout(left_s):
                    await appended.wait()
                await asyncio.sleep(min(_GATHER_S, max(deadline_s - loop.time(), 0)))
            except TimeoutError:
                continue

    async def _settled(self) -> None:
        """Wait for what has an append time already and is not durable yet.

        An answer without it would say that the log had ended at a later time (docs/decisions/0015).
        """
        for future in self._log.settled():
            with suppress(LogError):  # it was not written, so there is nothing to wait for
                await asyncio.wrap_future(future)

    def _collected(self, body: Any) -> tuple[int | None, list[Any]]:
        """The bytes found and the answer; None instead of bytes: an error, which must not wait."""
        size: int | None = 0
        left_bytes, answers = min(body.max_bytes, _FETCH_MAX_BYTES), []
        for name, partitions in body.topics:
            found: list[tuple[Any, ...]] = []
            for partition, _, offset, _, max_bytes in partitions:
                data, error, end, start = b"", protocol.NONE, _UNKNOWN, _UNKNOWN
                place = self._place(name, partition)
                if place is None:
                    error = protocol.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    log = self._log.log_of(place[0])
                    start, end = log.start(place), log.end(place)
                    try:
                        if left_bytes > 0 or offset < start:
                            data = b"".join(log.read(place, offset, min(max_bytes, left_bytes)))
                    except OffsetOutOfRangeError:
                        error = protocol.OFFSET_OUT_OF_RANGE
                    except LogError as fault:
                        logger.error(
                            "records cannot be read",
                            extra={"reason": str(fault), "runbook": "docs/backup.md#log-is-damaged"},
                        )
                        error = protocol.KAFKA_STORAGE_ERROR
                size = None if error or size is None else size + len(data)
                left_bytes -= len(data)
                found.append((partition, error, end, end, start, [], data))
            answers.append((name, found))
        return size, answers

    def _offsets(self, body: Any) -> tuple[Any, ...]:
        return ([(name, [self._offset(name, *each) for each in asked]) for name, asked in body.topics],)

    def _offset(self, name: str, partition: int, timestamp: int) -> tuple[int, int, int, int]:
        place = self._place(name, partition)
        if place is None:
            return partition, protocol.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN, _UNKNOWN
        log = self._log.log_of(place[0])
        offset = log.start(place) if timestamp == _EARLIEST else log.end(place)
        return partition, protocol.NONE, _UNKNOWN, offset

    # -- topics --------------------------------------------------------------------------------------------

    def _place(self, name: str, partition: int) -> Place | None:
        topic = name.removeprefix(self._prefix)
        is_ours = name.startswith(self._prefix) and 0 <= partition < self._partitions.get(topic, 0)
        return (topic, partition) if is_ours else None

    def _metadata(self, body: Any) -> tuple[Any, ...]:
        every = [f"{self._prefix}{topic}" for topic in self._partitions]
        names: Iterable[str] = every if body.topics is None else body.topics
        topics = [(*self._described(name, name in every),) for name in names]
        return [(_NODE, *self._address(), None)], self._log.id, _NODE, topics

    def _described(self, name: str, exists: bool) -> tuple[Any, ...]:
        if not exists:
            return protocol.UNKNOWN_TOPIC_OR_PARTITION, name, False, []
        count = self._partitions[name.removeprefix(self._prefix)]
        partitions: list[Any] = [
            (protocol.NONE, number, _NODE, [_NODE], [_NODE], []) for number in range(count)
        ]
        return protocol.NONE, name, False, partitions

    def _configs(self, body: Any) -> tuple[Any, ...]:
        entries: list[Any] = [("message.timestamp.type", "LogAppendTime", True, 5, False, [])]
        return (
            [
                (protocol.NONE, None, kind, name, entries if kind == _TOPIC_RESOURCE else [])
                for kind, name, _ in body.resources
            ],
        )

    # -- the group -----------------------------------------------------------------------------------------

    def _coordinator(self, _body: Any) -> tuple[Any, ...]:
        return protocol.NONE, None, _NODE, *self._address()

    def _join(self, body: Any) -> tuple[Any, ...]:
        try:
            member = self._group.join()
        except SinkError as fault:
            logger.info("group is not joined", extra={"reason": str(fault)})
            return protocol.KAFKA_STORAGE_ERROR, _UNKNOWN, "", "", "", []
        name, metadata = body.group_protocols[0]
        return protocol.NONE, self._group.generation, name, member, member, [(member, metadata)]

    def _sync(self, body: Any) -> tuple[Any, ...]:
        assignments = dict(body.group_assignment)
        try:
            found = self._group.sync(body.member_id, body.generation_id, assignments.get(body.member_id))
        except (UnknownMemberError, IllegalGenerationError) as fault:
            return _code(fault), b""
        return protocol.NONE, found

    def _heartbeat(self, body: Any) -> tuple[Any, ...]:
        return (self._checked(body.member_id, body.generation_id),)

    def _leave(self, body: Any) -> tuple[Any, ...]:
        self._group.leave(body.member_id)
        return (protocol.NONE,)

    def _commit(self, body: Any) -> tuple[Any, ...]:
        error = self._checked(body.consumer_id, body.consumer_group_generation_id)
        offsets = {
            place: offset
            for name, partitions in body.topics
            for partition, offset, _ in partitions
            if (place := self._place(name, partition)) is not None
        }
        if error == protocol.NONE:
            self._group.commit(offsets, int(asyncio.get_running_loop().time() * 1000))
        return ([(name, [(each[0], error) for each in partitions]) for name, partitions in body.topics],)

    def _committed(self, body: Any) -> tuple[Any, ...]:
        return ([(name, [self._committed_of(name, each) for each in asked]) for name, asked in body.topics],)

    def _committed_of(self, name: str, partition: int) -> tuple[int, int, str, int]:
        place = self._place(name, partition)
        offset = None if place is None else self._group.committed(place)
        return partition, _UNKNOWN if offset is None else offset, "", protocol.NONE

    def _checked(self, member: str, generation: int) -> int:
        try:
            self._group.check(member, generation)
        except (UnknownMemberError, IllegalGenerationError) as fault:
            return _code(fault)
        return protocol.NONE


def _code(fault: Exception) -> int:
    is_unknown = isinstance(fault, UnknownMemberError)
    return protocol.UNKNOWN_MEMBER_ID if is_unknown else protocol.ILLEGAL_GENERATION
