"""How slow the progress of a job is, as docs/rules.md has it, from its events in the order in which they were read.

Must import nothing of the project; speeds are floats, money is in the `scale`-ths of a nano-dollar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.intake import attempt_of
from tests.oracle.model import HOUR_MS, MINUTE_MS, Json
from tests.oracle.timeline import ENDLESS_MS, Attempt, Values, event_order, union

Limits = Mapping[str, Fraction]


class Slowed(NamedTuple):
    """Slow laps one after another, up to the last one; how fast they were, and what was usual, per ms."""

    attempt: int
    from_ms: int
    to_ms: int
    length_ms: int
    longest_before_ms: int
    per_ms: float
    usual_per_ms: float
    stands_ms: int  # from then on it stands still, if nothing moves before


def _order_of_names(name: str) -> tuple[int, str]:
    return {"tokens": 0, "samples": 1, "step": 2, "epoch": 3}.get(name, 4), name


def _names_gpus(event: Json) -> bool:
    return event.get("gpu_count") is not None or event.get("nodes") is not None


def _gpus(event: Json) -> int:
    return Values().after(event).gpu_milli


class _Reports:
    """The reports of the newest attempt that reported, of the value that is measured; laps go from report to report."""

    def __init__(self, event: Json, said: Iterable[Json]) -> None:
        self.gpus = next((_gpus(e) for e in sorted(said, key=event_order, reverse=True) if _names_gpus(e)), 0)
        self.usual: list[float] = []
        self.longest_ms = 0
        self.name = ""
        self.begin(event)

    def begin(self, event: Json) -> None:
        """Begin with another attempt, or another value; what is usual goes on for the same value."""
        best = min(event["progress"], key=_order_of_names)
        if best != self.name:
            self.usual, self.longest_ms = [], 0
        self.name, self.newest = best, (attempt_of(event), event_order(event))
        self.slow: list[tuple[int, int, float]] = []  # from, to, by how much it moved
        self.moves = self.moving_ms = 0
        self.value, self.moved_ms = event["progress"][best], event["time_ms"]
        self.began: tuple[int, float] | None = (self.moved_ms, self.value)

    def interrupt(self, event: Json) -> None:
        """ "on as many GPUs", and time in which it is suspended is in no lap."""
        if _names_gpus(event) and _gpus(event) != self.gpus:
            self.gpus, self.usual, self.longest_ms = _gpus(event), [], 0
        elif event["type"] not in ("suspended", "resumed"):
            return
        self.began, self.slow = None, []

    def report(self, event: Json) -> None:
        """A later report of the attempt."""
        values = event["progress"]
        if self.name not in values:
            return
        self.newest = attempt_of(event), event_order(event)
        before, self.value, at_ms = self.value, values[self.name], event["time_ms"]
        stood_ms = at_ms - self.moved_ms
        if self.value == before and self.began is not None:
            return
        self.moved_ms = at_ms
        is_pause = stood_ms >= 15 * MINUTE_MS and self.moves and stood_ms * self.moves > 6 * self.moving_ms
        if self.began is None or self.value < before or is_pause:
            self.began = at_ms, self.value
            return
        self.moves, self.moving_ms = self.moves + 1, self.moving_ms + stood_ms
        self._lap(at_ms, at_ms - self.began[0], self.value - self.began[1])

    def _lap(self, at_ms: int, lap_ms: int, gain: float) -> None:
        if lap_ms < 10 * MINUTE_MS:
            return
        if self.typical() and 2 * gain / lap_ms <= self.typical():
            self.slow.append((at_ms - lap_ms, at_ms, gain))
        else:
            self.longest_ms = max(self.longest_ms, self.length_ms())
            self.usual, self.slow = [*self.usual, gain / lap_ms][-12:], []
        self.began = at_ms, self.value

    def typical(self) -> float:
        """The speed of the median lap, the higher of two in the middle; 0: too few are known."""
        return sorted(self.usual)[len(self.usual) // 2] if len(self.usual) >= 6 else 0.0

    def length_ms(self) -> int:
        """How long all slow laps are."""
        return sum(to_ms - from_ms for from_ms, to_ms, _ in self.slow)

    def slowed(self) -> Slowed | None:
        """How slow it is now."""
        if not self.slow:
            return None
        total = 0.0
        for _, _, gain in self.slow:  # in order: sums of floats depend on it
            total += gain
        per_ms, mean_ms = total / self.length_ms(), -(-6 * self.moving_ms // self.moves) if self.moves else 0
        stands_ms = self.moved_ms + max(15 * MINUTE_MS, mean_ms)
        from_ms, to_ms = self.slow[0][0], self.slow[-1][1]
        return Slowed(
            self.newest[0],
            from_ms,
            to_ms,
            self.length_ms(),
            self.longest_ms,
            per_ms,
            self.typical(),
            stands_ms,
        )


def slowed(events: Iterable[Json]) -> Slowed | None:
    """How slow the newest attempt that reported is by now; None: as usual, or nothing is known."""
    found: _Reports | None = None
    said: dict[int, list[Json]] = {}
    for event in events:
        number = attempt_of(event)
        said.setdefault(number, []).append(event)
        if found is not None and number >= found.newest[0]:
            found.interrupt(event)
        values = event.get("progress") or {}
        if not values:
            continue
        if found is None:
            found = _Reports(event, said[number])
        elif number > found.newest[0]:
            found.begin(event)
        elif number == found.newest[0] and (number, event_order(event)) > found.newest:
            is_better = _order_of_names(min(values, key=_order_of_names)) < _order_of_names(found.name)
            (found.begin if is_better else found.report)(event)
    return None if found is None else found.slowed()


class Slowing(NamedTuple):
    """An attempt that is slow by its reports: when it runs on with the last one, and (from, to, rate) of what it pays."""

    found: Slowed
    end_ms: int
    pieces: Sequence[tuple[int, int, int]]
    scale: int

    @property
    def lost(self) -> Fraction:
        """Which share of what is paid does nothing that was done before."""
        return Fraction(1 - 1 / (self.found.usual_per_ms / self.found.per_ms))

    def holds(self, at_ms: int, limits: Limits) -> bool:
        """Laps have been slow for long, and enough was paid for what was not done, and is now."""
        found = self.found
        if not found.to_ms <= at_ms < self.end_ms:
            return False
        longest_ms = min(-(-3 * found.longest_before_ms // 2), 3 * HOUR_MS)
        if found.length_ms < max(round(limits["minutes"] * MINUTE_MS), longest_ms):
            return False
        spent = sum(
            rate * max(0, min(found.to_ms, end_ms) - max(found.from_ms, start_ms))
            for start_ms, end_ms, rate in self.pieces
        )
        now = sum(rate for start_ms, end_ms, rate in self.pieces if start_ms <= at_ms < end_ms)
        return (
            found.usual_per_ms / found.per_ms >= limits["times"]
            and spent * self.lost >= limits["least_usd"] * 10**9 * self.scale
            and now * HOUR_MS * self.lost >= limits["least_usd_per_hour"] * 10**9 * self.scale
        )


def slowing(
    attempts: Sequence[Attempt],
    pieces: Mapping[int, Sequence[tuple[int, int, int]]],
    scale: int,
    found: Slowed | None,
) -> Slowing | None:
    """What its attempts make of slow reports; None: nothing."""
    for attempt in attempts:
        if found is None or attempt.number != found.attempt or attempt.metered or not found.per_ms:
            continue
        running = union((s.start_ms, s.end_ms) for s in attempt.segments(ENDLESS_MS) if s.phase == "running")
        if running:
            return Slowing(found, min(running[-1][1], found.stands_ms), pieces.get(attempt.number, ()), scale)
    return None
