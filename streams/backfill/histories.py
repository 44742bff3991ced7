"""What the files say of each job and node as a whole: whether it is over, and so may be metered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from schemas.events import Event, GpuEvent, JobEvent, JobType, NodeEvent, TrafficEvent

_STARTS: Final = frozenset({JobType.allocated, JobType.started, JobType.resumed})
_BEGINS: Final = _STARTS | {JobType.queued}
_ENDS: Final = frozenset({JobType.preempted, JobType.failed, JobType.completed, JobType.cancelled})


class Owner(NamedTuple):
    """Whose an event is: a job, or a node for what no job has; the two may share a name."""

    name: str
    is_node: bool = False


class Skipped(StrEnum):
    """Why the events of a job or node are left out."""

    LIVE = "metered by the live meter"
    BEFORE = "metered by an earlier backfill"
    OPEN = "not over in these files"
    RECENT = "events at or after --until"


@dataclass(slots=True)
class _AttemptSpan:
    has_begun: bool = False
    has_started: bool = False
    has_ended: bool = False


@dataclass(slots=True)
class OwnerHistory:
    """One job or node in the files."""

    events: int = 0
    late_events: int = 0  # of these, at or after `--until`
    attempts: dict[int, _AttemptSpan] = field(default_factory=dict)  # those with lifecycle events

    @property
    def is_open(self) -> bool:
        """Whether an attempt goes on: it has begun, has no end, and no later attempt starts."""
        is_superseded = False
        for _, attempt in sorted(self.attempts.items(), reverse=True):
            if attempt.has_begun and not (attempt.has_ended or is_superseded):
                return True
            is_superseded |= attempt.has_started
        return False


class Histories:
    """All jobs and nodes of the files; `newest_ms` is the time of the newest event before `until_ms`, 0 without any."""

    def __init__(self, until_ms: int) -> None:
        self.of: dict[Owner, OwnerHistory] = {}
        self.newest_ms = 0
        self._until_ms = until_ms

    def add(self, event: Event) -> Owner | None:
        """Take an event into account; return whose it is, None for a price or control."""
        owner = _owner_of(event)
        if owner is None:
            return None
        known = self.of.get(owner)
        if known is None:
            known = self.of[owner] = OwnerHistory()
        known.events += 1
        if event.time_ms >= self._until_ms:
            known.late_events += 1
        else:
            self.newest_ms = max(self.newest_ms, event.time_ms)
        if isinstance(event, JobEvent):
            attempt = known.attempts.setdefault(event.attempt, _AttemptSpan())
            attempt.has_begun |= event.type in _BEGINS
            attempt.has_started |= event.type in _STARTS
            attempt.has_ended |= event.type in _ENDS
        return owner

    def unfit(self, known: Mapping[Owner, Skipped]) -> Iterator[tuple[Owner, Skipped]]:
        """Yield what is left out as a whole, with the reason; `known`: what was metered by others.

        Nodes go on: of those only the late events are left out.
        """
        for owner, history in self.of.items():
            if owner in known:
                yield owner, known[owner]
            elif history.is_open:
                yield owner, Skipped.OPEN
            elif history.late_events and not owner.is_node:
                yield owner, Skipped.RECENT


def _owner_of(event: Event) -> Owner | None:
    if isinstance(event, NodeEvent) or (isinstance(event, GpuEvent) and not event.job_id):
        return Owner(event.node, is_node=True)
    return Owner(event.job_id) if isinstance(event, JobEvent | GpuEvent | TrafficEvent) else None
