"""`retry_loop`: a job's attempts break off again and again within an hour.

A pure function of the attempts; what each of them lost is handed in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS, HOUR_MS
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.growing import changed_since
from streams.engine.timeline.intervals import Span, union

_FAILED: Final = ("failed", "superseded")


class RetryLimits(NamedTuple):
    """From how many attempts within an hour on, and from which loss in nano-dollars on if two or more failed."""

    failures: int
    preemptions: int
    lost_nano: int


class BrokenAttempt(NamedTuple):
    """An attempt that failed, was superseded without an end, or was preempted."""

    ended_ms: int
    attempt: int
    failed: bool
    reason: str


def broken_attempts(timelines: Mapping[int, Timeline]) -> list[BrokenAttempt]:
    """Return the attempts that broke off, in order of their ends."""
    return sorted(
        BrokenAttempt(line.ended_ms, number, line.state in _FAILED, line.reason)
        for number, line in timelines.items()
        if line.ended_ms is not None and line.state in (*_FAILED, "preempted")
    )


class BrokenAttempts:
    """Those of one job, of which only the attempts that changed are read again."""

    def __init__(self) -> None:
        self._timelines: Mapping[int, Timeline] = {}
        self._of: dict[int, BrokenAttempt] = {}
        self._in_order: list[BrokenAttempt] = []

    def update(self, timelines: Mapping[int, Timeline]) -> Sequence[BrokenAttempt]:
        """Return what `broken_attempts` does; it is valid until the next call."""
        changed, self._timelines = changed_since(timelines, self._timelines), timelines
        for number in changed:
            known = self._of.pop(number, None)
            if known is not None:
                del self._in_order[bisect_left(self._in_order, known)]
        for each in broken_attempts({n: timelines[n] for n in changed if n in timelines}):
            self._of[each.attempt] = each
            insort(self._in_order, each)
        return self._in_order


def retry_spans(
    broken: Sequence[BrokenAttempt],
    limits: RetryLimits,
    lost_nano: Callable[[int], Fraction],
    done_ms: int,
    since_ms: int = BEGINNING_MS,
) -> tuple[Span, ...]:
    """Return when a retry loop holds: from an end that completes it until an hour later, or until the job is done.

    `lost_nano(attempt)` is what the attempt lost, in nano-dollars; it is called only where two failed within an hour.
    `done_ms`: when the job was completed or cancelled, OPEN_MS if it was not. Spans that end by `since_ms` are left out.
    """
    spans = []
    begin = bisect_right(broken, since_ms - HOUR_MS, key=attrgetter("ended_ms"))
    for place in range(begin, len(broken)):
        last = broken[place]
        first = bisect_right(broken, last.ended_ms - HOUR_MS, 0, place, key=attrgetter("ended_ms"))
        alike = within_an_hour(broken[first : place + 1], last)
        most = limits.failures if last.failed else limits.preemptions
        holds = len(alike) >= most
        if not holds and last.failed and len(alike) > 1:
            holds = sum(lost_nano(each.attempt) for each in alike) >= limits.lost_nano
        if holds and last.ended_ms < done_ms:
            spans.append((last.ended_ms, min(last.ended_ms + HOUR_MS, done_ms)))
    return union(spans)


def within_an_hour(broken: Sequence[BrokenAttempt], last: BrokenAttempt) -> list[BrokenAttempt]:
    """Return those that broke off like the last one in the hour up to its end, itself included."""
    return [
        each
        for each in broken
        if each.failed == last.failed and last.ended_ms - HOUR_MS < each.ended_ms <= last.ended_ms
    ]
