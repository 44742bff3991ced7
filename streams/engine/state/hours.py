"""The measures of an hour row, and the sums of an attempt's single rows by hour.

Single rows are those of traffic and of samples, which no closed form describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.tables import COMPONENTS
from streams.engine.kernels.bill import MAX_COST_NANO, cost_of
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.lines import Line

HOUR_MS: Final = 3_600_000
MINUTES_PER_HOUR: Final = 60
#: Positions of the measures.
WALL_CLOCK, QUEUED, STARTING, GPU, LOST_GPU, UNPRICED_GPU, FIRST_COST = range(7)
LOST_COST: Final = FIRST_COST + len(COMPONENTS)
MEASURES: Final = LOST_COST + 1
#: The position of each component's cost.
COST_OF: Final = {component: FIRST_COST + place for place, component in enumerate(COMPONENTS)}


class BookedTime(NamedTuple):
    """The timelines and the accrual instant whose time the hour rows contain; `timelines` None: not known."""

    timelines: Mapping[int, Timeline] | None
    as_of_ms: int


#: Nothing is written yet.
NOTHING_BOOKED: Final = BookedTime({}, 0)
UNKNOWN_TIME: Final = BookedTime(None, 0)


class RowSums:
    """Sums of single rows by hour, as lists of MEASURES integers; an hour that is absent must be summed again."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[int, list[int]] = {}

    def of(self, hour: int) -> list[int] | None:
        """Return the sums of an hour."""
        return self._sums.get(hour)

    def put(self, hour: int, rows: Iterable[Mapping[Line, tuple[int, int]]], wall_clock_ms: int) -> list[int]:
        """Sum the rows of an hour's minutes."""
        sums = self._sums[hour] = [0] * MEASURES
        sums[WALL_CLOCK] = wall_clock_ms
        for minute_rows in rows:
            _add(sums, minute_rows, 1)
        return sums

    def change(
        self, minute: int, before: Mapping[Line, tuple[int, int]], after: Mapping[Line, tuple[int, int]]
    ) -> None:
        """Replace the rows of a minute."""
        sums = self._sums.get(minute // MINUTES_PER_HOUR)
        if sums is not None:
            _add(sums, before, -1)
            _add(sums, after, 1)

    def add_wall_clock(self, minute: int, more_ms: int) -> None:
        """Add sampled time."""
        sums = self._sums.get(minute // MINUTES_PER_HOUR)
        if sums is not None:
            sums[WALL_CLOCK] += more_ms


def _add(sums: list[int], rows: Mapping[Line, tuple[int, int]], sign: int) -> None:
    for line, (quantity, lost) in rows.items():
        price = line.price
        if price.usd_nano:
            cost_nano = min(cost_of(quantity, price.usd_nano, price.divisor), MAX_COST_NANO)
            sums[COST_OF[price.component]] += sign * cost_nano
            if lost:
                sums[LOST_COST] += sign * min(cost_of(lost, price.usd_nano, price.divisor), MAX_COST_NANO)
        if price.component == "gpu":
            sums[GPU] += sign * quantity
            sums[LOST_GPU] += sign * lost
            if not price.sku:
                sums[UNPRICED_GPU] += sign * quantity
