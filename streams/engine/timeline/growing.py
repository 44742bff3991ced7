"""Keeps the timelines of a job, and builds anew only those that new events change.

The result is that of `attempts.timelines` over all events; what an event costs grows with the attempts that it changes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from schemas.durations import BEGINNING_MS
from schemas.events import JobEvent
from streams.engine.timeline.attempts import Draft, Timeline, draft_of, timeline_of
from streams.engine.timeline.values import Values


class TimeRanges:
    """By when each attempt and all before it are over, which usually ascends; and which attempts are open."""

    __slots__ = ("_broken_ms", "_ended_ms", "_numbers", "_saved", "open", "until_ms")

    def __init__(self, numbers: Sequence[int]) -> None:
        """`numbers` of the attempts, ascending; it may grow."""
        self._numbers = numbers
        # Of each attempt, and all before it: the latest end of billed time, the latest end, and the latest one that broke off.
        self.until_ms: list[int] = []
        self._ended_ms: list[int] = []
        self._broken_ms: list[int] = []
        self._saved: list[bool] = []  # whether any of them has made a checkpoint
        self.open: set[int] = set()  # attempts without an end

    def update(self, lines: Mapping[int, Timeline], first: int) -> None:
        """Set the ends from a position among the attempts on."""
        until_ms, ended_ms, broken_ms = self.latest_ms(first)
        saved = first > 0 and self._saved[first - 1]
        for known in (self.until_ms, self._ended_ms, self._broken_ms, self._saved):
            del known[first:]
        for number in self._numbers[first:]:
            line = lines[number]
            if line.segments:
                until_ms = max(until_ms, line.segments[-1].end_ms)
            if line.ended_ms is None:
                self.open.add(number)
            else:
                self.open.discard(number)
                ended_ms = max(ended_ms, line.ended_ms)
            if line.state in ("preempted", "failed"):
                broken_ms = max(broken_ms, line.ended_ms or 0)
            saved = saved or line.checkpoint_ms is not None
            self._saved.append(saved)
            self.until_ms.append(until_ms)
            self._ended_ms.append(ended_ms)
            self._broken_ms.append(broken_ms)

    @property
    def has_saved(self) -> bool:
        """Whether any attempt has made a checkpoint."""
        return bool(self._saved) and self._saved[-1]

    def latest_ms(self, count: int | None = None) -> tuple[int, int, int]:
        """The latest ends of the first `count` attempts: of billed time, of any, of one that broke off; BEGINNING_MS: none."""
        last = (len(self.until_ms) if count is None else count) - 1
        if last < 0:
            return BEGINNING_MS, BEGINNING_MS, BEGINNING_MS
        return self.until_ms[last], self._ended_ms[last], self._broken_ms[last]

    def ending_after(self, at_ms: int) -> Sequence[int]:
        """The attempts from the first one on of which any billed time ends after an instant."""
        return self._numbers[bisect_right(self.until_ms, at_ms) :]


class Timelines(dict[int, Timeline]):
    """The timelines of a job by attempt number, ascending; it is not changed once it is built."""

    __slots__ = ("length", "log", "ranges")

    def __init__(self, known: Mapping[int, Timeline], log: list[int], ranges: TimeRanges) -> None:
        """`log`: the attempts that were built for it and for those before it, which share the list.

        `ranges` are those of the newest one of these.
        """
        super().__init__(known)
        self.log, self.length, self.ranges = log, len(log), ranges

    def ending_after(self, at_ms: int) -> Collection[int]:
        """The attempts of which any billed time ends after an instant, ascending, perhaps with others."""
        return self.ranges.ending_after(at_ms) if self.is_newest else self

    @property
    def is_newest(self) -> bool:
        """Whether nothing was built since, so that the ranges are its own."""
        return self.length == len(self.log)

    def built_since(self, before: Mapping[int, Timeline]) -> Sequence[int] | None:
        """The attempts that were built since an earlier result of the same job; None: it is not known."""
        if isinstance(before, Timelines) and before.log is self.log and before.length <= self.length:
            return self.log[before.length : self.length]
        return None


def paid_after(lines: Mapping[int, Timeline], at_ms: int) -> Iterator[Timeline]:
    """Yield the attempts that are paid after an instant, ascending; of a long history the others are not looked at.

    There may be some among them of which no time is paid.
    """
    numbers = lines.ending_after(at_ms) if isinstance(lines, Timelines) else lines
    for number in numbers:
        line = lines[number]
        if not line.ended_by(at_ms):
            yield line


def newest_first(lines: Mapping[int, Timeline]) -> Iterator[tuple[int, Timeline]]:
    """Yield the attempts, the newest first, each with the latest end of billed time of it and of all before it."""
    if isinstance(lines, Timelines) and lines.is_newest:
        return zip(reversed(lines.ranges.until_ms), reversed(lines.values()), strict=True)
    known = [*lines.values()]
    ends_ms = (line.segments[-1].end_ms if line.segments else BEGINNING_MS for line in known)
    return zip(reversed([*accumulate(ends_ms, max)]), reversed(known), strict=True)


def have_saved(lines: Mapping[int, Timeline]) -> bool:
    """Whether any attempt has made a checkpoint."""
    if isinstance(lines, Timelines) and lines.is_newest:
        return lines.ranges.has_saved
    return any(line.checkpoint_ms is not None for line in lines.values())


def changed_since(now: Mapping[int, Timeline], before: Mapping[int, Timeline]) -> Collection[int]:
    """The attempts outside which two results have the very same timelines."""
    if now is before:
        return ()
    built = now.built_since(before) if isinstance(now, Timelines) else None
    return [n for n in {**now, **before} if now.get(n) is not before.get(n)] if built is None else set(built)


def cost_alike(now: Mapping[int, Timeline], before: Mapping[int, Timeline]) -> bool:
    """Whether two results are equal but for checkpoints from which no work was lost yet."""
    return all(
        _without_checkpoint(now.get(number)) == _without_checkpoint(before.get(number))
        for number in changed_since(now, before)
    )


def _without_checkpoint(line: Timeline | None) -> Timeline | None:
    return None if line is None else line._replace(checkpoint_ms=None, saves_ms=())


class GrowingTimelines:
    """The timelines of one job, and what later events need to know of them."""

    __slots__ = (
        "_ended",
        "_events",
        "_first_start_ms",
        "_log",
        "_numbers",
        "_ranges",
        "_superseded_ms",
        "built",
        "fields_held",
    )

    def __init__(self, events: Callable[[int], Iterable[JobEvent]]) -> None:
        """`events` returns those of an attempt."""
        self._events = events
        self._numbers: list[int] = []  # of attempts, ascending
        self._first_start_ms: dict[int, int | None] = {}
        self._superseded_ms: dict[int, int | None] = {}  # the first start of any later attempt
        self._ended: set[int] = set()  # attempts that end by an event of their own: none supersedes them
        self._log: list[int] = []
        self._ranges = TimeRanges(self._numbers)
        #: The price fields of all segments that were ever built.
        self.fields_held: set[tuple[str | None, ...]] = set()
        self.built = Timelines({}, self._log, self._ranges)

    def update(self, changed: Iterable[int]) -> Timelines:
        """The timelines as of now, given that the events of all other attempts are as they were."""
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
        first = queue[0] if queue else 0
        while queue:
            number = heapq.heappop(queue)
            line = self._line(number, drafts.get(number) or draft_of(self._events(number)), lines)
            known = lines.get(number)
            lines[number] = line
            first = min(first, number)
            self._log.append(number)
            self.fields_held.update(segment.values.fields for segment in line.segments)
            if known is not None and known.values != line.values:
                following = bisect_left(self._numbers, number) + 1
                if following < len(self._numbers) and self._numbers[following] not in todo:
                    todo.add(self._numbers[following])
                    heapq.heappush(queue, self._numbers[following])
        if not is_in_order:
            lines = {number: lines[number] for number in self._numbers}
        if queue or todo:
            self._ranges.update(lines, bisect_left(self._numbers, first))
        self.built = Timelines(lines, self._log, self._ranges)
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
