"""How a job grows to the size that is requested for it: which growth is its start, however late it comes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence


class RequestedStart:
    """What a job held over time, and what was requested for it; both in thousandths of a GPU."""

    __slots__ = ("_held", "_peak", "_requested", "_requested_ms", "_times_ms")

    def __init__(self, requested: Sequence[tuple[int, int]], held: Iterable[tuple[int, int, int]]) -> None:
        """`requested` (time_ms, GPUs) in the order of its events; `held` (start_ms, end_ms, GPUs) of all attempts."""
        by_time = sorted(requested, key=lambda each: each[0])  # of equal times the last one counts
        self._requested_ms = [time_ms for time_ms, _ in by_time]
        self._requested = [milli for _, milli in by_time]
        changes: dict[int, int] = {}
        for start_ms, end_ms, milli in held:
            if start_ms < end_ms and milli:
                changes[start_ms] = changes.get(start_ms, 0) + milli
                changes[end_ms] = changes.get(end_ms, 0) - milli
        self._times_ms = sorted(changes)
        now = peak = 0
        self._held = [0]
        self._peak = [0]
        for at_ms in self._times_ms:
            now += changes[at_ms]
            peak = max(peak, now)
            self._held.append(now)
            self._peak.append(peak)

    def is_growth(self, at_ms: int) -> bool | None:
        """Whether what a job holds from an instant on is a part of its start; None: what is requested does not say so."""
        said = bisect_right(self._requested_ms, at_ms)
        requested = self._requested[said - 1] if said else 0
        if not requested:
            return None
        place = bisect_right(self._times_ms, at_ms)
        begins = place > 0 and self._times_ms[place - 1] == at_ms
        held, before = self._held[place], self._peak[place - 1 if begins else place]
        if before >= requested or held > requested:
            return False
        return True if held > before else None
