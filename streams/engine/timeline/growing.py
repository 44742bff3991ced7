"""Keeps the timelines of a job, and builds anew only those that new events change.

The result is that of `attempts.timelines` over all events; what an event costs grows with the attempts that it changes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from schemas.events import JobEvent
from streams.engine.timeline.attempts import Draft, Timeline, draft_of, timeline_of
from streams.engine.timeline.values import Values


class Timelines(dict[int, Timeline]):
    """The timelines of a job by attempt number, ascending; it is not changed once it is built."""

    __slots__ = ("length", "log")

    def __init__(self, known: Mapping[int, Timeline], log: list[int]) -> None:
        """`log`: the attempts that were built for it and for those before it, which share the list."""
        super().__init__(known)
        self.log, self.length = log, len(log)

    def built_since(self, before: Mapping[int, Timeline]) -> Sequence[int] | None:
        """Return the attempts that were built since an earlier result of the same job; None: it is not known."""
        if isinstance(before, Timelines) and before.log is self.log and before.length <= self.length:
            return self.log[before.length : self.length]
        return None


def changed_since(now: Mapping[int, Timeline], before: Mapping[int, Timeline]) -> Collection[int]:
    """Return the attempts outside which two results have the very same timelines."""
    if now is before:
        return ()
    built = now.built_since(before) if isinstance(now, Timelines) else None
    return [n for n in {**now, **before} if now.get(n) is not before.get(n)] if built is None else set(built)


def are_alike(now: Mapping[int, Timeline], before: Mapping[int, Timeline]) -> bool:
    """Return whether two results are equal."""
    return all(now.get(number) == before.get(number) for number in changed_since(now, before))


class GrowingTimelines:
    """The timelines of one job, and what later events need to know of them."""

    __slots__ = ("_ended", "_events", "_first_start_ms", "_log", "_numbers", "_superseded_ms", "built")

    def __init__(self, events: Callable[[int], Iterable[JobEvent]]) -> None:
        """`events` returns those of an attempt."""
        self._events = events
        self._numbers: list[int] = []  # of attempts, ascending
        self._first_start_ms: dict[int, int | None] = {}
        self._superseded_ms: dict[int, int | None] = {}  # the first start of any later attempt
        self._ended: set[int] = set()  # attempts that end by an event of their own: none supersedes them
        self._log: list[int] = []
        self.built = Timelines({}, self._log)

    def update(self, changed: Iterable[int]) -> Timelines:
        """Return the timelines as of now, given that the events of all other attempts are as they were."""
        drafts = {number: draft_of(self._events(number)) for number in changed}
        todo = set(drafts)
        self._ended.update(number for number, draft in drafts.items() if draft.own_end is not None)
        fresh = sorted(drafts.keys() - self._first_start_ms.keys())
        is_in_order = not fresh or not self._numbers or fresh[0] > self._numbers[-1]
        for number in fresh:
            self._insert(number, todo)
        self._set_starts(drafts, todo)
        lines = dict(self.built)
        queue = sorted(todo)
        while queue:
            number = heapq.heappop(queue)
            line = self._line(number, drafts.get(number) or draft_of(self._events(number)), lines)
            known = lines.get(number)
            lines[number] = line
            self._log.append(number)
            if known is not None and known.values != line.values:
                following = bisect_left(self._numbers, number) + 1
                if following < len(self._numbers) and self._numbers[following] not in todo:
                    todo.add(self._numbers[following])
                    heapq.heappush(queue, self._numbers[following])
        if not is_in_order:
            lines = {number: lines[number] for number in self._numbers}
        self.built = Timelines(lines, self._log)
        return self.built

    def _insert(self, number: int, todo: set[int]) -> None:
        """Add an attempt; the one after it begins with its values."""
        insort(self._numbers, number)
        place = bisect_left(self._numbers, number)
        self._first_start_ms[number] = self._superseded_ms[number] = None
        if place + 1 < len(self._numbers):
            after = self._numbers[place + 1]
            todo.add(after)
            self._superseded_ms[number] = _first(self._superseded_ms[after], self._first_start_ms[after])

    def _set_starts(self, drafts: Mapping[int, Draft], todo: set[int]) -> None:
        """Record when attempts start, and add to `todo` the earlier ones that this supersedes at another time."""
        moved = [n for n, draft in drafts.items() if self._first_start_ms[n] != draft.first_start_ms]
        for number in moved:
            self._first_start_ms[number] = drafts[number].first_start_ms
        for number in sorted(moved, reverse=True):
            for place in range(bisect_left(self._numbers, number) - 1, -1, -1):
                before, after = self._numbers[place], self._numbers[place + 1]
                end_ms = _first(self._superseded_ms[after], self._first_start_ms[after])
                if self._superseded_ms[before] == end_ms:
                    break  # and so it is for all earlier ones
                self._superseded_ms[before] = end_ms
                if before not in self._ended:
                    todo.add(before)

    def _line(self, number: int, draft: Draft, lines: Mapping[int, Timeline]) -> Timeline:
        place = bisect_left(self._numbers, number)
        carried = lines[self._numbers[place - 1]].values if place else Values()
        superseded_ms = self._superseded_ms[number] if draft.own_end is None else None
        return timeline_of(number, draft, superseded_ms, carried, is_retry=place > 0)


def _first(one_ms: int | None, other_ms: int | None) -> int | None:
    if one_ms is None or other_ms is None:
        return other_ms if one_ms is None else one_ms
    return min(one_ms, other_ms)
