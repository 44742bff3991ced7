"""What the events of a job say of the whole job, kept up with each event: reading all of them anew grows with the job's history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS
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


class SaidRequests:
    """How many GPUs are requested; `value` is the same object until that changes, (time_ms, thousandths of a GPU) in order."""

    __slots__ = ("_until_ms", "value")

    def __init__(self, events: Iterable[JobEvent]) -> None:
        """Take all events so far, in any order."""
        self._until_ms = BEGINNING_MS
        self.value: list[tuple[int, int]] = []
        naming = [
            (event.time_ms, event.attempt, event_order(event), event.gpus_requested)
            for event in events
            if event.gpus_requested is not None
        ]
        for time_ms, _, _, gpus in sorted(naming):
            self._append(time_ms, gpus)

    def add(self, event: JobEvent) -> bool:
        """Take one event more; return False if it is not the newest one, so that all have to be read again."""
        if event.gpus_requested is None:
            return True
        if event.time_ms <= self._until_ms:
            return False
        self._append(event.time_ms, event.gpus_requested)
        return True

    def _append(self, time_ms: int, gpus: int) -> None:
        self._until_ms = time_ms
        if not self.value or self.value[-1][1] != 1000 * gpus:  # else nothing else is requested
            self.value = [*self.value, (time_ms, 1000 * gpus)]
