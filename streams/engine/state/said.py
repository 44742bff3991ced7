"""What the events of a job say of the whole job, kept up with each event: reading all of them anew grows with the job's history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS, NEVER_MS
from schemas.events import JobEvent
from streams.engine.timeline.attempts import event_order

_DIMENSIONS: Final = ("owner", "team", "project", "experiment", "labels", "run_id", "work_dir")


class JobDimensions(NamedTuple):
    """Fields of the whole job: the latest event that has one wins."""

    owner: str | None = None
    team: str | None = None
    project: str | None = None
    experiment: str | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    run_id: str | None = None
    work_dir: str | None = None


class SaidDimensions:
    """The dimensions of a job; `value` is the same object until one of them changes."""

    __slots__ = ("_from", "value")

    def __init__(self, events: Iterable[JobEvent]) -> None:
        """Take all events so far, in any order."""
        self._from: dict[str, tuple[object, ...]] = {}  # by name the place of the event that it is of
        self.value = JobDimensions()
        for event in events:
            self.add(event)

    def add(self, event: JobEvent) -> None:
        """Take one event more: later attempts come after earlier ones, whenever they come."""
        changed: dict[str, object] = {}
        for name in _DIMENSIONS:
            value = getattr(event, name)
            if value is None:
                continue
            place = event.attempt, *event_order(event)
            if name in self._from and place < self._from[name]:
                continue
            self._from[name] = place
            value = tuple(sorted(value.items())) if name == "labels" else value
            if value != getattr(self.value, name):
                changed[name] = value
        if changed:
            self.value = self.value._replace(**changed)  # type: ignore[arg-type]  # keys are field names, values have their types


class SaidSteps:
    """Whole numbers that hold from an event on; `value` is the same object until that changes, (time_ms, number) in order."""

    __slots__ = ("_name", "_until_ms", "value")

    def __init__(self, name: str, events: Iterable[JobEvent]) -> None:
        """Take all events so far, in any order; `name` is the field that has the number."""
        self._name = name
        self._until_ms = BEGINNING_MS
        self.value: list[tuple[int, int]] = []
        naming = [
            (event.time_ms, event.attempt, event_order(event), number)
            for event in events
            if (number := getattr(event, name)) is not None
        ]
        for time_ms, _, _, number in sorted(naming):
            self._append(time_ms, number)

    def add(self, event: JobEvent) -> bool:
        """Take one event more; return False if it is not the newest one, so that all have to be read again."""
        number = getattr(event, self._name)
        if number is None:
            return True
        if event.time_ms <= self._until_ms:
            return False
        self._append(event.time_ms, number)
        return True

    def _append(self, time_ms: int, number: int) -> None:
        self._until_ms = time_ms
        if not self.value or self.value[-1][1] != number:  # else it goes on
            self.value = [*self.value, (time_ms, number)]


class SaidLimits:
    """The budget and the deadline of a job; a deadline also as of the newest event, of whatever attempt."""

    __slots__ = ("_budget_from", "_deadline_from", "_newest", "budget", "deadline_ms", "newest_deadline_ms")

    def __init__(self, events: Iterable[JobEvent]) -> None:
        """Take all events so far, in any order."""
        self.budget: tuple[tuple[str, str], ...] = ()  # the known keys, their values as text
        self.deadline_ms: int | None = None
        self.newest_deadline_ms = NEVER_MS  # there is none
        self._budget_from: tuple[object, ...] = ()
        self._deadline_from: tuple[object, ...] = ()
        self._newest: tuple[object, ...] = ()
        for event in events:
            self.add(event)

    def add(self, event: JobEvent) -> None:
        """Take one event more: later attempts come after earlier ones, whenever they come."""
        order = event_order(event)
        place, newest = (event.attempt, *order), (event.time_ms, event.attempt, *order)
        if event.budget is not None and place >= self._budget_from:
            self._budget_from = place
            self.budget = tuple((name, str(value)) for name, value in event.budget.items())
        if event.deadline_ms is None:
            return
        if place >= self._deadline_from:
            self._deadline_from, self.deadline_ms = place, event.deadline_ms
        if newest >= self._newest:
            self._newest, self.newest_deadline_ms = newest, event.deadline_ms
