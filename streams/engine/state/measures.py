"""What a job says of its model and its progress: of each name the newest value, whatever the order of arrival.

Measures cost nothing and change no row but the job's own; events are not needed for them once they are recorded.
"""

from __future__ import annotations

from typing import Final

from schemas.events import JobEvent
from schemas.wire_types import MAX_ENTRIES
from streams.engine.timeline.attempts import event_order

#: `quality` or `progress`.
KINDS: Final = ("quality", "progress")
#: The order of an event in its job: attempt, then as in its timeline.
Order = tuple[int, tuple[int, int, str, str]]
#: (kind, name, order of the event that says so, value).
Measure = tuple[str, str, Order, float]
#: (name, value), by name.
Shown = tuple[tuple[str, float], ...]


class Measures:
    """The newest value of each name; of more than MAX_ENTRIES names of a kind the first by name are kept."""

    __slots__ = ("_newest", "_shown")

    def __init__(self) -> None:
        self._newest: dict[str, dict[str, tuple[Order, float]]] = {}
        self._shown: tuple[Shown, Shown] | None = ((), ())

    def add(self, event: JobEvent) -> None:
        """Record what an event says."""
        if event.quality is None and event.progress is None:
            return
        order = (event.attempt, event_order(event))
        for kind, said in zip(KINDS, (event.quality, event.progress), strict=True):
            self._update(kind, [(name, order, value) for name, value in (said or {}).items()])

    def _update(self, kind: str, said: list[tuple[str, Order, float]]) -> None:
        newest = self._newest.setdefault(kind, {})
        for name, order, value in said:
            known = newest.get(name)
            if known is None or known[0] < order:
                newest[name] = (order, value)
        for name in sorted(newest)[MAX_ENTRIES:]:
            del newest[name]  # for good: names are never taken back, so those before it stay
        self._shown = None

    def shown(self) -> tuple[Shown, Shown]:
        """Quality and progress."""
        if self._shown is None:
            quality, progress = (
                tuple(sorted((name, value) for name, (_, value) in self._newest.get(kind, {}).items()))
                for kind in KINDS
            )
            self._shown = quality, progress
        return self._shown

    def progress_of(self, attempt: int) -> dict[str, float]:
        """The newest values of progress that an attempt reported."""
        newest = self._newest.get("progress", {})
        return {name: value for name, (order, value) in newest.items() if order[0] == attempt}

    def dump(self) -> list[Measure]:
        """All values, for a snapshot."""
        return [
            (kind, name, order, value)
            for kind, newest in self._newest.items()
            for name, (order, value) in newest.items()
        ]

    def load(self, dumped: list[Measure]) -> None:
        """Add the values of a snapshot."""
        for kind in {each[0] for each in dumped}:
            self._update(kind, [each[1:] for each in dumped if each[0] == kind])
