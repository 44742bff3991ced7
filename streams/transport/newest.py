"""Reads the newest event times of the log from the last records of each partition, for commands that send events.

It joins no group and commits nothing.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reasons import Reason
from streams.config.settings import KafkaSettings
from streams.topics import SHARD_TOPICS, full_name, short_name
from streams.transport.log_reader import ends_of, log_reader, next_messages

logger = logging.getLogger(__name__)

#: Of each partition: among a few records from several producers the newest is near the newest of all.
_LAST_RECORDS: Final = 20
_AT_ONCE: Final = 1_000


class _Timed(msgspec.Struct):
    time_ms: int = 0


_times: Final = msgspec.json.Decoder(_Timed)


def newest_times(
    kafka: KafkaSettings, newest_allowed_ms: int, timeout_s: float
) -> dict[tuple[str, int], int]:
    """The newest `time_ms` among the last valid events of each partition of the shards' topics. Blocks.

    Partitions that do not answer within `timeout_s` in all are left out: an older log than there is makes no event late.

    Args:
        kafka: Where the log is.
        newest_allowed_ms: Later events are refused, and do not count.
        timeout_s: For all of it.
    """
    deadline_s = time.monotonic() + timeout_s
    found: dict[tuple[str, int], int] = {}
    with closing(log_reader(kafka, "trainfare-newest")) as consumer:
        try:
            waiting = _begins(consumer, kafka, deadline_s)
            consumer.assign([TopicPartition(*place, offset) for place, offset in waiting.items()])
            while waiting and (left_s := deadline_s - time.monotonic()) > 0:
                for message in next_messages(consumer, _AT_ONCE, left_s):
                    place = (str(message.topic()), int(message.partition() or 0))
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        waiting.pop(place, None)
                    elif error is None:
                        _take(found, kafka.topic_prefix, message, newest_allowed_ms)
        except KafkaException as fault:
            logger.debug("the last records of the log cannot be read", extra={"error": fault.args[0].str()})
    return found


def _begins(consumer: Consumer, kafka: KafkaSettings, deadline_s: float) -> dict[tuple[str, int], int]:
    """Where the last records of each partition begin that has some."""
    begins = {}
    for topic in SHARD_TOPICS:
        name = full_name(topic, kafka.topic_prefix)
        for number in range(kafka.partitions):
            left_s = max(deadline_s - time.monotonic(), 0.1)
            low, end = ends_of(consumer, TopicPartition(name, number), left_s)
            if low < end:
                begins[name, number] = max(low, end - _LAST_RECORDS)
    return begins


def _take(found: dict[tuple[str, int], int], prefix: str, message: Message, newest_allowed_ms: int) -> None:
    topic, value = short_name(str(message.topic()), prefix), message.value()
    given: Any = message.headers() or ()
    headers = [(str(name), each) for name, each in given if isinstance(each, bytes)]
    event = decode(topic, value, headers, newest_allowed_ms)
    if not isinstance(event, Invalid):
        time_ms = event.time_ms
    elif event.reason is Reason.reserved_name and value is not None:
        # Only the worker can tell whether it is the canary's, as this process may lack its key; mostly it is.
        time_ms = min(_times.decode(value).time_ms, newest_allowed_ms)
    else:
        return
    place = (topic, int(message.partition() or 0))
    found[place] = max(found.get(place, 0), time_ms)
