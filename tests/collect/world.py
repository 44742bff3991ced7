"""A source that a test moves on, with faults; one class for each collector. And a destination that fails when told to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import orjson

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.collect.collector import CollectedEvent, Collector, Position
from streams.errors import TrainfareError
from tests.harness import meter
from tests.oracle.model import Line, Tables


class World(Protocol):
    """An outside system in some states, one after the other."""

    states: int

    def collector(self) -> Collector:
        """Return a new collector that reads it."""

    def turn(self, state: int) -> int:
        """Bring the system into a state; return the time that is then, in ms."""

    def entries(self, state: int) -> int:
        """Return how many entries a collector that begins in this state is shown, counted from what the system says alone."""

    def go_away(self) -> None:
        """Answer nothing from now on."""

    def come_back(self) -> None:
        """Answer again."""

    def close(self) -> None:
        """End what runs."""


class CrashError(TrainfareError):
    """The destination is gone."""


class Log:
    """Takes events; keeps nothing of a call that is to fail, or the first few of its events."""

    def __init__(self) -> None:
        self.events: list[CollectedEvent] = []
        self.fails_after: int | None = None  # events that are still taken

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        for event in events:
            if self.fails_after is not None:
                if not self.fails_after:
                    raise CrashError("the destination is away")
                self.fails_after -= 1
            self.events.append(event)

    @property
    def distinct(self) -> set[bytes]:
        """The events as JSON with sorted keys, each once."""
        return {
            event.topic.encode() + b" " + orjson.dumps(event.value, option=orjson.OPT_SORT_KEYS)
            for event in self.events
        }

    def of(self, job_id: str) -> list[dict[str, Any]]:
        """The events of a job."""
        return [dict(value) for _, value in self.events if value["job_id"] == job_id]

    def refused(self) -> list[Invalid]:
        """What the meter would refuse of the events."""
        found = (decode(topic, orjson.dumps(value), (), 2**53) for topic, value in self.events)
        return [each for each in found if isinstance(each, Invalid)]

    def tables(self, as_of_ms: int) -> Tables:
        """What the meter makes of the log, by the engine itself."""
        return meter([Line(topic, dict(value)) for topic, value in self.events], as_of_ms=as_of_ms)


def watched(world: World, collector: Collector, states: Iterable[int], may_skip: str = "") -> Log:
    """The events of a collector that looks at these states; what it leaves out must say `may_skip`, if that is given."""
    log = Log()
    position: Position | None = None
    for state in states:
        for batch in collector.poll(position, world.turn(state)):
            log.publish(batch.events)
            position = batch.position
            assert [fault for fault in batch.account.said if not may_skip or may_skip not in fault] == []
    return log
