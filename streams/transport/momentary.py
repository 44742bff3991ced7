"""Answers of brokers that hold for a moment only: what they are, and how aiokafka is made to ask again at each of them.

aiokafka retries some of them, ends at others, and repeats a fetch at once at the rest. Here such an answer becomes one
that aiokafka retries after learning anew who leads or coordinates. The private names that it uses are in
tests/transport/pins.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiokafka.errors import (
    BrokerNotAvailableError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IllegalGenerationError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotCoordinatorForGroupError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    UnknownError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

# aiokafka has no names for these codes.
NETWORK_EXCEPTION: Final = 13
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
OFFSET_NOT_AVAILABLE: Final = 78
UNSTABLE_OFFSET_COMMIT: Final = 88
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103

#: Answers about a partition while brokers start, elect leaders or learn of a topic.
OF_PARTITIONS: Final = frozenset(
    {
        UnknownError.errno,
        UnknownTopicOrPartitionError.errno,
        LeaderNotAvailableError.errno,
        NotLeaderForPartitionError.errno,
        RequestTimedOutError.errno,
        BrokerNotAvailableError.errno,
        ReplicaNotAvailableError.errno,
        NETWORK_EXCEPTION,
        KafkaStorageError.errno,
        FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
        OFFSET_NOT_AVAILABLE,
        UNKNOWN_TOPIC_ID,
        INCONSISTENT_TOPIC_ID,
    }
)
_OF_BROKERS: Final = {
    UnknownError.errno,
    RequestTimedOutError.errno,
    BrokerNotAvailableError.errno,
    NETWORK_EXCEPTION,
}
_LOOK_UP: Final = GroupCoordinatorNotAvailableError.errno
_LOADING: Final = GroupLoadInProgressError.errno
_FETCH, _OFFSET_FETCH, _FIND_COORDINATOR, _JOIN, _HEARTBEAT, _SYNC = 1, 9, 10, 11, 12, 14
#: API key -> code of a whole response -> the code that aiokafka retries.
_INSTEAD: Final[dict[int, dict[int, int]]] = {
    _FIND_COORDINATOR: dict.fromkeys({*_OF_BROKERS, NotCoordinatorForGroupError.errno}, _LOOK_UP),
    _JOIN: {
        **dict.fromkeys({*_OF_BROKERS, RebalanceInProgressError.errno}, _LOADING),
        IllegalGenerationError.errno: UnknownMemberIdError.errno,
    },
    _HEARTBEAT: dict.fromkeys({*_OF_BROKERS, _LOADING}, _LOOK_UP),
    _SYNC: dict.fromkeys({*_OF_BROKERS, _LOADING}, _LOOK_UP),
}
_OFFSET_FETCH_INSTEAD: Final = dict.fromkeys({*_OF_BROKERS, UNSTABLE_OFFSET_COMMIT, _LOOK_UP}, _LOADING)

#: A partition counts as ending before the next offset only if brokers say so for this long.
OUT_OF_RANGE_FOR_S: Final = 5.0
#: Before a refused fetch is repeated.
_PAUSE_S: Final = 0.1


class Momentary:
    """Replaces momentary answers to one client."""

    def __init__(
        self,
        monotonic_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._pause = pause
        self._out_since_s: dict[tuple[str, int], float] = {}

    def watch(self, client: Any) -> None:
        """Replace such answers from now on."""
        send = client.send

        async def replaced(node_id: Any, request: Any, **options: Any) -> Any:
            response = await send(node_id, request, **options)
            key = getattr(response, "API_KEY", None)
            if key == _FETCH:
                if self._of_fetch(response):
                    await self._pause(_PAUSE_S)
            elif key == _OFFSET_FETCH:
                response.topics = [
                    (
                        topic,
                        [(*place[:-1], _OFFSET_FETCH_INSTEAD.get(place[-1], place[-1])) for place in places],
                    )
                    for topic, places in response.topics
                ]
            elif key in _INSTEAD:
                response.error_code = _INSTEAD[key].get(response.error_code, response.error_code)
            return response

        client.send = replaced

    def _of_fetch(self, response: Any) -> bool:
        """Replace the codes of partitions; return whether any was refused."""
        refused = False
        topics = []
        for topic, places in response.topics:
            kept = []
            for place in places:
                code = self._of_partition(topic, place[0], place[1])
                refused |= code != 0
                kept.append(place if code == place[1] else (place[0], code, *place[2:]))
            topics.append((topic, kept))
        if refused:
            response.topics = topics
        return refused

    def _of_partition(self, topic: str, number: int, code: int) -> int:
        if code == OffsetOutOfRangeError.errno:
            now_s = self._monotonic_s()
            since_s = self._out_since_s.setdefault((topic, number), now_s)
            return code if now_s - since_s >= OUT_OF_RANGE_FOR_S else NotLeaderForPartitionError.errno
        self._out_since_s.pop((topic, number), None)
        return NotLeaderForPartitionError.errno if code in OF_PARTITIONS else code
