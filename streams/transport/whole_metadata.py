"""Keeps answers that are true for a moment only out of the metadata from which shards are assigned.

A broker that has just started may answer that a topic does not exist, has no leader, or has fewer partitions. aiokafka
replaces all it knew by such an answer, and Faust's assignor then hands out nothing. The private names that it uses are
in tests/transport/pins.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from schemas.counting import how_many
from streams.errors import TrainfareError

logger = logging.getLogger(__name__)

#: A topic that Kafka's answers lack for this long is gone.
GONE_AFTER_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 2.0

# An entry of an answer: (error code, topic, is internal, [(error code, partition, leader, ...)])
_Entry = tuple[int, str, bool, list[tuple[Any, ...]]]


class NotWholeError(Exception):
    """Kafka's metadata lacks a topic, or partitions of one, so no assignment can be made of it."""


class WholeMetadata:
    """The metadata of one consumer; what an answer lacks is kept as it was known, and asked for again soon.

    Args:
        wanted: Full topic name -> number of partitions, as found when the worker started.
        gone: Called in the consumer thread once answers have lacked something for GONE_AFTER_S.
        monotonic_s: A clock.
    """

    def __init__(
        self,
        wanted: Mapping[str, int],
        gone: Callable[[TrainfareError], None],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = dict(wanted)
        self._gone = gone
        self._monotonic_s = monotonic_s
        self._lacked_since_s: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._asking: asyncio.TimerHandle | None = None
        self._client: Any = None

    def watch(self, client: Any) -> None:
        """Complete all answers to this client from now on."""
        self._client = client
        update = client.cluster.update_metadata

        def completed(metadata: Any) -> None:
            lacking = self._lacking_in(metadata) if metadata.brokers else {}
            if not lacking:
                if metadata.brokers and self._has_asked_for_all(metadata):
                    self._lacked_since_s, self._pause_s = None, _FIRST_PAUSE_S
                update(metadata)
                return
            update(self._complete(metadata, lacking))
            self._note(lacking)

        client.cluster.update_metadata = completed

    def lacking(self) -> str:
        """What is not known of the wanted topics, in words; '' if all is."""
        found = []
        for topic, count in sorted(self._wanted.items()):
            known = len(self._client.cluster.partitions_for_topic(topic) or ())
            if known < count:
                found.append(f"topic {topic} has {known} of {how_many(count, 'partition')}")
        return ", ".join(found)

    async def wait(self, at_most_s: float) -> None:
        """Return once the metadata is whole; ask for it until then.

        Raises:
            NotWholeError: It is not within the time.
        """
        deadline_s = self._monotonic_s() + at_most_s
        while lacking := self.lacking():
            if self._monotonic_s() >= deadline_s:
                raise NotWholeError(lacking)
            await asyncio.wait({asyncio.ensure_future(self._client.force_metadata_update())}, timeout=1.0)
            if self.lacking():
                await asyncio.sleep(_FIRST_PAUSE_S)

    def _has_asked_for_all(self, metadata: Any) -> bool:
        return self._wanted.keys() <= {topic for _, topic, _, _ in _entries(metadata)}

    def _lacking_in(self, metadata: Any) -> dict[str, _Entry | None]:
        """The wanted topics that the answer does not have whole, and what it says of them."""
        said = {
            topic: (code, topic, internal, places) for code, topic, internal, places in _entries(metadata)
        }
        # The first answers of a client are of no topic: it has not subscribed yet.
        if not self._wanted.keys() & (said.keys() | self._client.cluster.topics()):
            return {}
        return {
            topic: said.get(topic)
            for topic, count in self._wanted.items()
            if topic not in said or said[topic][0] or len(said[topic][3]) < count
        }

    def _complete(self, metadata: Any, lacking: Mapping[str, _Entry | None]) -> Any:
        """The answer with what is known from earlier answers in place of what it lacks."""
        topics = [each for each in _entries(metadata) if each[1] not in lacking]
        brokers = {each[0] for each in metadata.brokers}
        cluster = self._client.cluster
        for topic, entry in lacking.items():
            newer = {} if entry is None or entry[0] else {place[1]: place for place in entry[3]}
            known = cluster.partitions_for_topic(topic) or ()
            places = list(newer.values())
            for number in sorted(set(known) - newer.keys()):
                old = cluster._partitions[topic][number]
                leader = old.leader if old.leader in brokers else -1
                places.append((old.error, number, leader, old.replicas, old.isr))
            if places:
                topics.append((0, topic, False, places))
            elif entry is not None:
                topics.append(entry)
        return SimpleNamespace(
            API_VERSION=max(metadata.API_VERSION, 1),
            brokers=[(*each, None)[:4] for each in metadata.brokers],
            controller_id=getattr(metadata, "controller_id", None),
            topics=topics,
        )

    def _note(self, lacking: Mapping[str, _Entry | None]) -> None:
        now_s = self._monotonic_s()
        if self._lacked_since_s is None:
            self._lacked_since_s = now_s
        lacked_s = now_s - self._lacked_since_s
        names = ", ".join(sorted(lacking))
        logger.warning(
            "an answer of Kafka lacks topics or partitions, asking again",
            extra={
                "topics": names,
                "lacked_s": round(lacked_s, 1),
                "runbook": "docs/trouble.md#shards-without-an-owner",
            },
        )
        if lacked_s >= GONE_AFTER_S:
            self._gone(
                TrainfareError(
                    f"Kafka has not known {names} with all partitions for {lacked_s:.0f} s: deleted, made anew with "
                    "fewer, or not shown to this user; restore the topics, or begin anew with another group and an empty "
                    "store"
                )
            )
            return
        if self._asking is None:
            self._asking = asyncio.get_running_loop().call_later(self._pause_s, self._ask)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _ask(self) -> None:
        self._asking = None
        self._client.force_metadata_update()


def _entries(metadata: Any) -> list[_Entry]:
    if metadata.API_VERSION == 0:
        return [(code, topic, False, list(places)) for code, topic, places in metadata.topics]
    return [(code, topic, bool(internal), list(places)) for code, topic, internal, places in metadata.topics]
