"""Reads prices and controls: every worker reads these two small topics completely before it starts, then follows them.

It passes on immutable price books, and what the store should record of them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.canary_proof import CanaryProof
from schemas.decode import decode
from schemas.events import ControlEvent, PriceEvent
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.redaction import kept_raw
from schemas.validate_deeds import is_deed
from schemas.validate_requests import is_request
from schemas.validate_sources import is_source
from schemas.validate_tokens import KEY_PREFIX as TOKEN_PREFIX
from schemas.validate_tokens import is_token
from schemas.wire_types import MAX_KEY_BYTES
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.books import Books
from streams.engine.shard.dead_letters import Quota, RecordPosition, Replay, replay_of
from streams.engine.shard.job_tables import DeadLetter
from streams.errors import TrainfareError
from streams.topics import REFERENCE_TOPICS, Topic, full_name
from streams.worker.reference.interruption import GONE_AFTER_S, Interruption

logger = logging.getLogger(__name__)

_FIRST_ANSWER_S = 10.0
_FIRST_PAUSE_S = 0.2
_FIRST_TRIES = round(GONE_AFTER_S / _FIRST_PAUSE_S)


def first_of(place: TopicPartition, consumer: Consumer) -> TopicPartition:
    """The partition's first offset; asking is faster than the client's own lookup, which takes half a second.

    Raises:
        TrainfareError: The topic cannot be read.
    """
    for left in range(_FIRST_TRIES, 0, -1):
        try:
            low, _ = consumer.get_watermark_offsets(place, timeout=_FIRST_ANSWER_S)
        except KafkaException as fault:
            # A new topic may have no leader yet, or not on every broker.
            if left == 1 or fault.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise TrainfareError(f"topic {place.topic} cannot be read: {fault.args[0].str()}") from fault
            consumer.poll(_FIRST_PAUSE_S)
        else:
            break
    return TopicPartition(place.topic, place.partition, low)


_PARTITION = 0  # each of these topics has one partition
_AT_ONCE = 1_000
_FIRST_FOLD = 50_000
_WAIT_S = 0.1
_PATIENT_WAIT_S = 0.5
_GATHER_S = 0.05  # records are collected for this long, as every fold builds a new price book


@dataclass(frozen=True)
class ReferenceChanges:
    """The result of one read: the price book after it, and what is to be stored."""

    book: PriceBook
    controls: Mapping[bytes, ControlEvent]
    revised: Sequence[PriceEvent]
    refused: Sequence[DeadLetter]
    # The offsets [first, next) of the price log that were read; `revised` is a function of this interval.
    first: int
    next: int
    positions: Mapping[str, int]  # topic -> next offset
    # (log time in ms, event) in log order; a control of None deletes the control of its key.
    price_log: Sequence[tuple[int, PriceEvent]] = ()
    control_log: Sequence[tuple[int, bytes, ControlEvent | None]] = ()
    replays: Sequence[Replay] = ()
    control_offsets: Sequence[int] = ()  # of `control_log`
    control_headers: Sequence[Sequence[tuple[str, bytes | None]]] = ()  # of `control_log`


@dataclass
class _Read:
    """State of the reading thread; no other thread touches it."""

    book: PriceBook
    controls: dict[bytes, ControlEvent] = field(default_factory=dict)
    tokens: dict[bytes, ControlEvent] = field(default_factory=dict)  # replaced where it changes
    requests: dict[bytes, ControlEvent] = field(default_factory=dict)  # replaced where it changes
    next: dict[str, int] = field(default_factory=dict)
    log_ms: dict[str, int] = field(default_factory=dict)  # of each topic

    def keep(self, key: bytes, standing: ControlEvent | None) -> None:
        """Keep the newest record of a key; None removes it."""
        if is_source(key, standing) or is_deed(key, standing):
            return  # nothing that people set: stored, and in force for nobody
        if is_token(key, standing):
            # Under another key it would outlive the end of the token of its name.
            if standing is None or key == TOKEN_PREFIX + standing.name.encode():
                self.tokens = _with(self.tokens, key, standing)
        elif is_request(key, standing):
            self.requests = _with(self.requests, key, standing)
        elif standing is None:
            self.controls.pop(key, None)
        else:
            self.controls[key] = standing


def _with(
    records: Mapping[bytes, ControlEvent], key: bytes, standing: ControlEvent | None
) -> dict[bytes, ControlEvent]:
    """A new mapping: another thread reads the one before."""
    found = {each: record for each, record in records.items() if each != key}
    return found if standing is None else {**found, key: standing}


class ReferenceReader:
    """A thread with a consumer outside the group: every worker needs all records."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topic_prefix: str,
        newest_allowed_ms: Callable[[int], int],
        on_news: Callable[[ReferenceChanges], object],
        on_fault: Callable[[BaseException], None],
        *,
        book: PriceBook | None = None,
        controls: Mapping[bytes, ControlEvent] | None = None,
        base: Mapping[str, int] | None = None,
        letters_per_minute: int | None = None,
        backpressure: Callable[[], bool] = lambda: True,
        patient: bool = False,
        canary: CanaryProof | None = None,
    ) -> None:
        """Set up the reader; a `patient` one lets the broker hold a fetch open, which it answers at the first record."""
        self._backpressure = backpressure
        self._wait_s = _PATIENT_WAIT_S if patient else _WAIT_S
        self._config = dict(client_config)
        self._prefix = topic_prefix
        self._newest_allowed_ms = newest_allowed_ms
        self._canary = canary
        self._on_news = on_news
        self._on_fault = on_fault
        self._base = dict(base or {})
        self._read = _Read(PriceBook.empty() if book is None else book, dict(controls or {}))
        self._quota = Quota(letters_per_minute)
        self._replays: list[Replay] = []
        self._stop = threading.Event()
        self._ready = asyncio.Event()
        self._thread: threading.Thread | None = None
        self.books = Books()
        # topic -> next offset to read; replaced as a whole, so that any thread may read it
        self.next: Mapping[str, int] = {}
        #: Topic -> (end offset when it was last read to the end, log time of its newest record).
        self.read_to: Mapping[str, int] = {}
        self.newest_ms: Mapping[str, int] = {}
        #: Issued access tokens by key; None until both topics were read to their end. Replaced as a whole.
        self.tokens: Mapping[bytes, ControlEvent] | None = None
        #: What waits for a second person, by key.
        self.requests: Mapping[bytes, ControlEvent] = {}

    @property
    def base(self) -> Mapping[str, int]:
        """Where reading began, by topic."""
        return self._base

    async def start(self) -> None:
        """Start the thread; return when both topics are read to their current end."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="reference", daemon=True)
        self._thread.start()
        await self._ready.wait()

    def request_stop(self) -> None:
        """Ask the thread to stop; it ends soon."""
        self._stop.set()

    async def stop(self) -> None:
        """Stop the thread and wait for it."""
        self.request_stop()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5)

    # -- in the thread -------------------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            consumer = Consumer(
                {
                    **self._config,
                    "group.id": "trainfare-reference",  # required by the client; nothing is committed
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",  # to begin anew would read everything twice
                    "fetch.wait.max.ms": int(self._wait_s * 1000),
                }
            )
            try:
                self._follow(consumer, loop)
            finally:
                consumer.close()
        except BaseException as fault:  # noqa: BLE001 - if the thread died silently, old prices would stay in force
            _call_soon(loop, self._on_fault, fault)
        finally:
            _call_soon(loop, self._ready.set)

    def _follow(self, consumer: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        unread = {full_name(topic, self._prefix) for topic in REFERENCE_TOPICS}
        firsts = [first_of(TopicPartition(name, _PARTITION), consumer) for name in sorted(unread)]
        consumer.assign(firsts)
        next_offsets = {TopicPartition(first.topic, _PARTITION): first.offset for first in firsts}
        interruption = Interruption()
        messages: list[Message] = []
        while not self._stop.is_set():
            if not unread and not self._backpressure():
                self._stop.wait(_WAIT_S)  # under backpressure more records would only wait for the store
                continue
            interruption.read_on(consumer, next_offsets)
            for message in self._poll(consumer):
                error, name = message.error(), str(message.topic())
                if error is None:
                    interruption.ended(name)
                    place, offset = TopicPartition(name, _PARTITION), int(message.offset() or 0)
                    if (
                        offset >= next_offsets[place]
                    ):  # what was in flight when reading began anew comes twice
                        next_offsets[place] = offset + 1
                        messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    interruption.ended(name)
                    unread.discard(name)
                    topic, end = self._place(message)
                    self.read_to = {**self.read_to, topic: end}
                else:
                    interruption.note(error, name)
            # Every fold builds a new price book, so the initial read is folded in a few large pieces.
            if messages and (not unread or len(messages) >= _FIRST_FOLD):
                _call_soon(loop, self._on_news, self._fold(messages))
                messages = []
            if not unread:
                self.tokens, self.requests = self._read.tokens, self._read.requests
                _call_soon(loop, self._ready.set)

    def _poll(self, consumer: Consumer) -> list[Message]:
        """The next messages; wait for the first of them."""
        first = consumer.poll(self._wait_s)
        return [] if first is None else [first, *consumer.consume(_AT_ONCE, timeout=_GATHER_S)]

    def _fold(self, messages: Sequence[Message]) -> ReferenceChanges:
        read = self._read
        first = read.next.get(Topic.PRICES, self._base.get(Topic.PRICES, 0))
        bad = 0
        prices: list[PriceEvent] = []
        refused: list[DeadLetter] = []
        price_log: list[tuple[int, PriceEvent]] = []
        control_log: list[tuple[int, bytes, ControlEvent | None]] = []
        control_offsets: list[int] = []
        control_headers: list[list[tuple[str, bytes | None]]] = []
        for message in messages:
            event = self._decode(message)
            if isinstance(event, Invalid):
                bad += 1
                refused.extend(self._refusal(message, event))
            elif isinstance(event, PriceEvent):
                prices.append(event)
                price_log.append((read.log_ms[Topic.PRICES], event))
            elif isinstance(event, ControlEvent):
                standing = None if message.value() is None else event
                read.keep(_key(message), standing)
                control_log.append((read.log_ms[Topic.CONTROLS], _key(message), standing))
                control_offsets.append(self._place(message)[1])
                control_headers.append(_headers(message))
        before = read.book
        read.book = book = before.with_events(prices)
        revised = [event for event in prices if book.is_current(event)] if book is not before else []
        self.books.records_in += len(messages)
        self.books.dead_lettered += bad
        self.books.applied += len(messages) - bad
        replays, self._replays = self._replays, []
        if refused:
            logger.warning(
                "prices or controls refused",
                extra={
                    "topic": refused[-1].topic,
                    "records": bad,
                    "last_reason": refused[-1].detail,
                    "runbook": "docs/dead_letters.md#dead-letters",
                },
            )
        self.next, self.newest_ms = dict(read.next), dict(read.log_ms)
        return ReferenceChanges(
            read.book,
            dict(read.controls),
            revised,
            refused,
            first,
            read.next.get(Topic.PRICES, 0),
            {str(topic): offset for topic, offset in read.next.items()},
            price_log,
            control_log,
            replays,
            control_offsets,
            control_headers,
        )

    def _decode(self, message: Message) -> object:
        topic, offset = self._place(message)
        append_ms = message.timestamp()[1]
        self._read.log_ms[topic] = max(self._read.log_ms.get(topic, append_ms), append_ms)
        self._read.next[topic] = offset + 1
        headers = _headers(message)
        replayed = replay_of(headers, RecordPosition(topic, _PARTITION, offset)) if headers else None
        if replayed is not None:
            self._replays.append(Replay(replayed, self._read.log_ms[topic], _PARTITION, offset))
        event = decode(topic, message.value(), headers, self._newest_allowed_ms(append_ms), self._canary)
        return _judge_key(event, _key(message))

    def _place(self, message: Message) -> tuple[str, int]:
        topic = str(message.topic()).removeprefix(self._prefix)
        return topic, int(message.offset() or 0) + self._base.get(topic, 0)

    def _refusal(self, message: Message, invalid: Invalid) -> Iterator[DeadLetter]:
        """Yield the dead letter, unless the quota of such letters is used up."""
        topic, offset = self._place(message)
        reason, log_ms = str(invalid.reason), self._read.log_ms[topic]
        value = kept_raw(topic, reason, message.value() or b"")
        keep_bytes = self._quota.raw_bytes(topic, reason, log_ms, len(value))
        if keep_bytes is not None:
            yield DeadLetter(topic, _PARTITION, offset, reason, invalid.detail, value[:keep_bytes], log_ms)


def _key(message: Message) -> bytes:
    return message.key() or b""


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    return [(str(header[0]), _as_bytes(header[1])) for header in message.headers() or ()]


def _judge_key(event: object, key: bytes) -> object:
    """The event, or Invalid for a control whose key is too long: keys are stored as long as the controls are."""
    if not isinstance(event, ControlEvent) or len(key) <= MAX_KEY_BYTES:
        return event
    return Invalid(Reason.too_long, f"key: got {len(key)} bytes, expected at most {MAX_KEY_BYTES}")


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        logger.debug("event loop has ended, the reader's news is dropped")
