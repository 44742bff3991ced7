"""Probes Kafka and the store, the end offsets of the log and the owners of shards, with a client apart from the consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # not in its __all__

from streams.clock import Clock
from streams.config.settings import KafkaSettings
from streams.topics import REFERENCE_TOPICS, SHARD_TOPICS, full_name
from streams.transport.faust_types import TP
from streams.transport.security import librdkafka_config
from streams.worker.health.group_shards import GroupShards, group_shards

logger = logging.getLogger(__name__)

EVERY_S: Final = 5.0
_ANSWER_WITHIN_S: Final = 4.0


@dataclass(frozen=True)
class ProbeResult:
    """The result of the last probe."""

    asked_ms: int = 0  # monotonic time before the end offsets were requested
    asked_log_ms: int = 0  # log time then
    shards: frozenset[int] = frozenset()  # whose partitions were asked for then
    ends: Mapping[TP, int] = field(default_factory=dict)  # the last known end offsets, by full topic name
    kafka: bool = True
    store: bool = True
    begins: Mapping[TP, int] = field(
        default_factory=dict
    )  # the first offsets when a partition was first probed
    group: GroupShards | None = None  # None: the brokers did not describe it
    group_ms: int = 0  # monotonic time when it was asked for


class Probe:
    """Probes in threads of its own, so that a Kafka or store that hangs blocks neither the other nor the event loop."""

    def __init__(self, kafka: KafkaSettings, ping: Callable[[], object], clock: Clock) -> None:
        self._kafka = kafka
        self._prefix = kafka.topic_prefix
        self._ping = ping
        self._clock = clock
        config = {
            **librdkafka_config(kafka),
            "log_level": 0,
            "socket.timeout.ms": int(_ANSWER_WITHIN_S * 1000),
        }
        self._client = AdminClient(config)
        self._threads = ThreadPoolExecutor(2, "outlook")
        self._pinging: asyncio.Future[bool] | None = None
        self.probed = ProbeResult()

    async def run(self, shards: Callable[[], Iterable[int]], every_s: float = EVERY_S) -> None:
        """Probe these shards' partitions every `every_s` seconds until cancelled; then call `close`."""
        while True:
            await self.collect(shards())
            await asyncio.sleep(every_s)

    async def close(self) -> None:
        """Wait for the threads to end: the store must not be closed while one uses it."""
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    async def collect(self, shards: Iterable[int]) -> ProbeResult:
        """Probe once."""
        asked_ms, asked_log_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        before = self.probed
        wanted = frozenset(shards)
        asking = asyncio.get_running_loop().run_in_executor(
            self._threads, self._ends, sorted(wanted), before.begins
        )
        store = await self._store_is_there()
        begins, ends, all_answered = await asking
        group_ms = self._clock.monotonic_ms()
        group = await asyncio.get_running_loop().run_in_executor(
            self._threads, group_shards, self._client, self._kafka, _ANSWER_WITHIN_S
        )
        if not all_answered:
            asked_ms, asked_log_ms, wanted = before.asked_ms, before.asked_log_ms, before.shards
        self.probed = ProbeResult(
            asked_ms,
            asked_log_ms,
            wanted,
            {**before.ends, **ends},
            all_answered,
            store,
            {**before.begins, **begins},
            group,
            group_ms,
        )
        return self.probed

    async def _store_is_there(self) -> bool:
        """Whether the store answers soon; while a query hangs, no second one is sent."""
        if self._pinging is None:
            loop = asyncio.get_running_loop()
            self._pinging = loop.run_in_executor(self._threads, self._store_answers)
        await asyncio.wait({self._pinging}, timeout=_ANSWER_WITHIN_S)
        if not self._pinging.done():
            return False
        answered, self._pinging = self._pinging.result(), None
        return answered

    # -- in threads ----------------------------------------------------------------------------------------

    def _ends(
        self, shards: Iterable[int], known: Mapping[TP, int]
    ) -> tuple[Mapping[TP, int], Mapping[TP, int], bool]:
        """First offsets that are not known, the high watermarks of the partitions, and whether all brokers answered."""
        places = [(topic, number) for topic in SHARD_TOPICS for number in shards]
        places += [(topic, 0) for topic in REFERENCE_TOPICS]
        asked = [TP(full_name(topic, self._prefix), number) for topic, number in places]
        latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # untyped in the client
        # First offsets first: what is appended in between is behind both.
        begins, begins_fault = self._offsets([tp for tp in asked if tp not in known], earliest)
        ends, ends_fault = self._offsets(asked, latest)
        fault = begins_fault or ends_fault
        if fault is not None:
            logger.debug("ends of the log are not all known", extra={"reason": str(fault)})
        return begins, ends, fault is None

    def _offsets(self, asked: Iterable[TP], spec: OffsetSpec) -> tuple[Mapping[TP, int], Exception | None]:
        found: dict[TP, int] = {}
        fault: Exception | None = None
        specs = {TopicPartition(tp.topic, tp.partition): spec for tp in asked}
        if not specs:
            return found, fault
        try:
            answers = self._client.list_offsets(
                specs, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_ANSWER_WITHIN_S
            )
        except Exception as refused:  # noqa: BLE001 - the probe continues and reports that Kafka does not answer
            answers, fault = {}, refused
        for tp, answer in answers.items():
            try:
                found[TP(tp.topic, tp.partition)] = answer.result().offset
            except KafkaException as failed:
                fault = failed
        return found, fault

    def _store_answers(self) -> bool:
        try:
            self._ping()
        except Exception as fault:  # noqa: BLE001 - in any case the store did not answer
            logger.debug("store does not answer", extra={"reason": str(fault)})
            return False
        return True
