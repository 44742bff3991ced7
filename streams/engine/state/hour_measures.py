"""The measures of an hour row, and the sums of an attempt's single rows by hour.

Single rows are those of traffic and of samples, which no closed form describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from schemas.units import COMPONENTS
from streams.engine.kernels.bill import MAX_COST_NANO, cost_of
from streams.engine.timeline.attempts import FieldStep, Timeline
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Line, Lines

MINUTES_PER_HOUR: Final = 60
#: Positions of the measures.
WALL_CLOCK, QUEUED, STARTING, GPU, LOST_GPU, UNPRICED_GPU = range(6)
SAMPLED_GPU, PRODUCTIVE_GPU, TENSOR_GPU, TENSOR_SAMPLED_GPU, FIRST_COST = range(UNPRICED_GPU + 1, 11)
LOST_COST: Final = FIRST_COST + len(COMPONENTS)
STARTING_LOST_COST: Final = LOST_COST + 1
MEASURES: Final = STARTING_LOST_COST + 1
#: The position of each component's cost.
COST_OF: Final = {component: FIRST_COST + place for place, component in enumerate(COMPONENTS)}


#: Price fields in the order of PRICE_FIELDS, empty where none is known.
Fields = tuple[str, ...]
#: Sampled usage, in ms of GPU-time: from SAMPLED_GPU on, as many as the measures of usage.
MinuteUsage = tuple[int, ...]
NO_USAGE: Final[MinuteUsage] = (0, 0, 0, 0)
MinuteLines = Mapping[Line, tuple[int, int]]


class BookedTime(NamedTuple):
    """The timelines and the accrual instant whose time the hour rows contain; `timelines` None: not known."""

    timelines: Mapping[int, Timeline] | None
    as_of_ms: int


#: Nothing is written yet.
NOTHING_BOOKED: Final = BookedTime({}, 0)
UNKNOWN_TIME: Final = BookedTime(None, 0)


class HourPieces(NamedTuple):
    """An hour of an attempt cut where its price fields change.

    `time`: (from_ms, until_ms, fields), in order. `usage`: (first minute, last minute + 1, fields).
    """

    line: Timeline
    hour: int
    sampled: bool
    time: list[tuple[int, int, Fields]]
    usage: list[tuple[int, int, Fields]]


@dataclass(slots=True)
class OpenHour:
    """The rows of an open attempt's newest hour as they were last handed over, to be handed over again.

    While only time goes on, the last interval of `billed` and those of the attempt's lines become longer, and nothing else
    changes. A piece of time or usage ends with the place of its row.
    """

    hour: int
    timelines: Mapping[int, Timeline]  # of all attempts, compared by identity
    lines: Lines  # the booked ones, likewise
    as_of_ms: int
    until_ms: int  # valid up to this instant
    sampled: bool
    written: dict[Fields, tuple[int, int]]
    places: dict[Fields, int]
    time: list[tuple[int, int, int]]
    usage: list[tuple[int, int, int]]
    billed: list[Interval]
    waits: list[Interval]

    def prolong(self, as_of_ms: int) -> None:
        """Bill time up to an instant."""
        start_ms, _, rate, phase = self.billed[-1]
        self.billed[-1] = (start_ms, as_of_ms, rate, phase)
        self.as_of_ms = as_of_ms


#: By price fields: a sum of rows, as MEASURES integers.
Sums = dict[Fields, list[int]]


class RowSums:
    """Sums of single rows by hour and price fields; an hour that is absent must be summed again."""

    __slots__ = ("_steps", "_sums")

    def __init__(self) -> None:
        self._sums: dict[int, Sums] = {}
        self._steps: tuple[FieldStep, ...] | None = None

    def forget_unless(self, steps: tuple[FieldStep, ...]) -> None:
        """Drop all hours if the price fields of the timeline are not those that they were summed with."""
        if steps != self._steps:
            self._sums.clear()
            self._steps = steps

    def of(self, hour: int) -> Sums | None:
        """The sums of an hour."""
        return self._sums.get(hour)

    def put(self, hour: int, sums: Sums) -> None:
        """Set the sums of an hour."""
        self._sums[hour] = sums

    def forget(self, hour: int | None = None) -> None:
        """Drop an hour, or all: its rows were added up in another way than `change` can follow."""
        if hour is None:
            self._sums.clear()
        else:
            self._sums.pop(hour, None)

    def change(self, minute: int, fields: Fields, before: MinuteLines, after: MinuteLines) -> None:
        """Replace the rows of a minute that has these price fields."""
        sums = self._sums.get(minute // MINUTES_PER_HOUR)
        if sums is not None:
            mine = sums.setdefault(fields, [0] * MEASURES)
            add_rows(mine, before, -1)
            add_rows(mine, after, 1)

    def add_wall_clock(self, minute: int, fields: Fields, more_ms: int) -> None:
        """Add sampled time to a minute that has these price fields."""
        sums = self._sums.get(minute // MINUTES_PER_HOUR)
        if sums is not None:
            sums.setdefault(fields, [0] * MEASURES)[WALL_CLOCK] += more_ms


@lru_cache(maxsize=16384)
def sampled_fields(fields: tuple[str, ...]) -> Fields:
    """Price fields in the form that a Winner has, as rows show them."""
    return tuple(value[1:] for value in fields)


@lru_cache(maxsize=16384)
def shown_fields(fields: tuple[str | None, ...]) -> Fields:
    """Price fields as rows show them: empty where none is known."""
    return tuple(value or "" for value in fields)


def usage_sums(usage: MinuteUsage) -> list[int]:
    """Sampled usage as MEASURES integers."""
    sums = [0] * MEASURES
    sums[SAMPLED_GPU : SAMPLED_GPU + len(usage)] = usage
    return sums


def add_rows(sums: list[int], rows: MinuteLines, sign: int) -> None:
    """Add the rows of a minute to sums, or with sign -1 take them away."""
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
