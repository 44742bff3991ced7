"""How a job grows to the size that is requested for it: which growth is its start, however late it comes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

Held = tuple[int, int, int]  # start_ms, end_ms, thousandths of a GPU


class RequestedStart:
    """What a job held over time, in thousandths of a GPU, and how many GPUs were requested for it."""

    __slots__ = ("_by_attempt", "_changes", "_held", "_peak", "_requested", "_times_ms")

    def __init__(self) -> None:
        self._requested: Sequence[tuple[int, int]] = ()
        self._by_attempt: dict[int, tuple[Held, ...]] = {}
        self._changes: dict[int, int] = {}  # by instant: how much more is held from then on
        self._times_ms: list[int] = []
        self._held = [0]
        self._peak = [0]

    def request(self, requested: Sequence[tuple[int, int]]) -> None:
        """Replace what is requested: (time_ms, GPUs) since which so many are, ascending; of equal times the last one counts."""
        self._requested = requested

    def hold(self, attempts: Iterable[tuple[int, Iterable[Held]]]) -> None:
        """Replace what these attempts held, by their numbers: nothing before the first difference is counted anew."""
        news: dict[int, int] = {}
        for number, spans in attempts:
            held = tuple(spans)
            for known, sign in ((self._by_attempt.get(number, ()), -1), (held, 1)):
                for start_ms, end_ms, milli in known:
                    if start_ms < end_ms:
                        news[start_ms] = news.get(start_ms, 0) + sign * milli
                        news[end_ms] = news.get(end_ms, 0) - sign * milli
            self._by_attempt[number] = held
        news = {at_ms: milli for at_ms, milli in news.items() if milli}
        if not news:
            return
        first = bisect_left(self._times_ms, min(news))
        later = {*self._times_ms[first:], *news}
        del self._times_ms[first:], self._held[first + 1 :], self._peak[first + 1 :]
        for at_ms in sorted(later):
            milli = self._changes.pop(at_ms, 0) + news.get(at_ms, 0)
            if (
                not milli
            ):  # as at the far end of an attempt that was open, of which there would be one for each
                continue
            self._changes[at_ms] = milli
            self._times_ms.append(at_ms)
            self._held.append(self._held[-1] + milli)
            self._peak.append(max(self._peak[-1], self._held[-1]))

    def is_growth(self, at_ms: int) -> bool | None:
        """Whether what a job holds from an instant on is a part of its start; None: what is requested does not say so."""
        said = bisect_right(self._requested, at_ms, key=itemgetter(0))
        requested = 1000 * self._requested[said - 1][1] if said else 0
        if not requested:
            return None
        place = bisect_right(self._times_ms, at_ms)
        begins = place > 0 and self._times_ms[place - 1] == at_ms
        held, before = self._held[place], self._peak[place - 1 if begins else place]
        if before >= requested or held > requested:
            return False
        return True if held > before else None
