"""Decides what becomes of an error while prices and controls are read: wait and read on, or stop in words."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.errors import TrainfareError
from streams.transport.log_reader import MOMENTARY, ends_of

logger = logging.getLogger(__name__)

#: A topic that cannot be read for this long is gone.
GONE_AFTER_S: Final = 60.0
_AGAIN_S: Final = 1.0
_ANSWER_S: Final = 5.0
_REFUSED: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION)
#: The next offset is not in the log, or was not for a moment.
_NO_OFFSET: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class Interruption:
    """Since when the reference topics cannot be read, if they cannot."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._since_s: dict[str, float] = {}  # by topic
        self._again_s: float | None = None

    def note(self, error: KafkaError, topic: str) -> None:
        """Log an error that passes by itself.

        Raises:
            TrainfareError: Access is denied, or the topic has been gone for long.
        """
        now_s, code = self._monotonic_s(), error.code()
        stays = code in MOMENTARY or code in _NO_OFFSET
        since_s = self._since_s.setdefault(topic, now_s) if stays else now_s
        if error.fatal() or code in _REFUSED or now_s - since_s >= GONE_AFTER_S:
            raise TrainfareError(
                f"prices and controls cannot be read: {error.str()}"
                + (f", for {now_s - since_s:.0f} s: {topic} was deleted or made anew" if stays else "")
            ) from KafkaException(error)
        logger.warning(
            "prices and controls cannot be read, retrying",
            extra={"reason": error.str(), "runbook": "docs/trouble.md#kafka-unavailable"},
        )
        if stays and self._again_s is None:
            self._again_s = now_s + _AGAIN_S

    def ended(self, topic: str) -> None:
        """Record that the topic is read again."""
        self._since_s.pop(topic, None)

    def read_on(self, consumer: Consumer, next_offsets: dict[TopicPartition, int]) -> None:
        """Let the client read from these offsets, once it is time to: one that was got an error may wait forever."""
        if self._again_s is None or self._monotonic_s() < self._again_s:
            return
        self._again_s = None
        try:
            places = [_from(consumer, place, offset) for place, offset in next_offsets.items()]
        except KafkaException as fault:
            logger.debug("reading on is tried again", extra={"reason": fault.args[0].str()})
            self._again_s = self._monotonic_s() + _AGAIN_S
            return
        consumer.assign(places)


def _from(consumer: Consumer, place: TopicPartition, offset: int) -> TopicPartition:
    """Where to read on: later than `offset` where older records were deleted."""
    low, _ = ends_of(consumer, place, _ANSWER_S)
    return TopicPartition(place.topic, place.partition, max(offset, low))
