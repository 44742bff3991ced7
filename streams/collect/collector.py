"""What a collector is: it reads an outside system and makes events whose ids depend on what is reported alone."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from streams.accounts.account import Account
from streams.collect.options import CollectorOptions
from streams.errors import TrainfareError
from streams.topics import Topic

_EVENTS_PER_BATCH: Final = 1_000

Position = Mapping[str, Any]
"""How far a source was read: a JSON object that only its collector understands."""


class CollectedEvent(NamedTuple):
    """An event as docs/events.md has it; `value` is a JSON object."""

    topic: Topic
    value: Mapping[str, Any]


class EventBatch(NamedTuple):
    """Some events, and the position after them; `account` is of entries that no batch of the poll had before.

    `unattributed_bytes` are amounts that belong to no job, by reason.
    """

    events: list[CollectedEvent]
    position: Position
    account: Account = Account()  # of nobody: a batch that has entries brings its own
    unattributed_bytes: Mapping[str, int] = MappingProxyType({})


def full_batches(
    events: list[CollectedEvent], position: Position
) -> Generator[EventBatch, None, list[CollectedEvent]]:
    """Yield the events in full batches, with the position before them all; return the rest, for a batch with the next one."""
    whole = len(events) - len(events) % _EVENTS_PER_BATCH
    for first in range(0, whole, _EVENTS_PER_BATCH):
        yield EventBatch(events[first : first + _EVENTS_PER_BATCH], position)
    return events[whole:]


class SourceUnavailableError(TrainfareError):
    """The outside system does not answer, or not in a form that is understood; the same poll is tried again later."""


class Collector(Protocol):
    """One outside system.

    Two polls from the same position yield equal events for what they both report: a repeated event counts once.
    """

    @property
    def name(self) -> str:
        """What the collector is called in commands, metrics and `source`."""

    @property
    def interval_ms(self) -> int:
        """How long to wait between two polls."""

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what the source has to report after a position (None: from its beginning), in batches.

        Raises:
            SourceUnavailableError: The rest cannot be read now.
        """


@runtime_checkable
class FindsUnusedOptions(Protocol):
    """A collector that knows after a poll which names in its options nothing had that it read."""

    def unused_options(self) -> Iterator[str]:
        """Yield each with what the source has instead."""


class PolledByOptions:
    """A collector that waits between two polls as long as its options say."""

    _options: CollectorOptions

    @property
    def interval_ms(self) -> int:
        """How long to wait between two polls."""
        return self._options.interval_ms
