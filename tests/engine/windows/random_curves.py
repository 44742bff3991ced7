"""Jobs made up of random intervals, and what their windows hold by exact integration of the same intervals."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from schemas.durations import NEVER_MS
from streams.engine.kernels.arrays import F64, I64
from streams.engine.kernels.burn import Bool
from streams.engine.pricing.kinds import PriceRef
from streams.engine.timeline.lines import Line, Lines
from streams.engine.windows.curve import Curve, MeteredRun, build_curve
from tests.engine.kernels import naive_burn
from tests.engine.kernels.naive_burn import Figure, Piece

HOUR_MS = 3_600_000
NOON_MS = 1_700_006_400_000
BEGIN_MS = NOON_MS - 9 * HOUR_MS
SETTLES_MS = 600_000

PER_GPU_HOUR = 3_600_000_000
PRICES = (
    PriceRef("gpu", "gpu_milli_ms", "h100", 0, 2_990_000_000, PER_GPU_HOUR),
    PriceRef("gpu", "gpu_milli_ms", "h100-new", 5, 3_333_333_333, PER_GPU_HOUR * 8),
    PriceRef("gpu", "gpu_milli_ms", "", 0, 0, 1),
    PriceRef("overhead", "gpu_milli_ms", "power", 0, 123_456_789, PER_GPU_HOUR),
    PriceRef("license", "ms", "free", 0, 0, 3_600_000),
    PriceRef("labor", "ms", "staff", 0, 10**14 - 1, 3_600_000),
)
UNPRICED = PRICES[2]


class Made(NamedTuple):
    """All that a curve is built from."""

    lines: list[Lines]
    paid: list[tuple[int, int]]
    seconds: list[MeteredRun]
    lumps: dict[int, float]
    declared: list[tuple[int, int]]
    planned: list[tuple[int, int, int]]
    ended_ms: int = NEVER_MS

    def curve(self, job_id: str = "j", since_ms: int = 0) -> Curve:
        return build_curve(
            job_id,
            lines=self.lines,
            paid=self.paid,
            seconds=self.seconds,
            lumps=self.lumps,
            declared=self.declared,
            planned=self.planned,
            ended_ms=self.ended_ms,
            since_ms=since_ms,
        )

    def costs(self) -> list[Piece]:
        """(start, end, nano-dollars per ms) of everything that accrues with time."""
        pieces: list[Piece] = [
            (start, end, Fraction(rate * line.price.usd_nano, line.price.divisor))
            for lines in self.lines
            for line, intervals in lines.items()
            for start, end, rate, _ in intervals
        ]
        return pieces + [(run.start_ms, run.end_ms, run.cost_rate) for run in self.seconds]

    def paid_spans(self) -> list[tuple[int, int]]:
        return self.paid + [(run.start_ms, run.end_ms) for run in self.seconds]

    def rate_at(self, at_ms: int) -> Fraction:
        """Nano-dollars per ms."""
        return sum((Fraction(rate) for start, end, rate in self.costs() if start <= at_ms < end), Fraction(0))

    def _has(self, at_ms: int, *, priced: bool) -> bool:
        """Whether something with a price accrues, or GPU-time without one."""
        of_lines = any(
            start <= at_ms < end and rate > 0
            for lines in self.lines
            for line, intervals in lines.items()
            for start, end, rate, _ in intervals
            if (line.price.sku != "" if priced else line.price == UNPRICED)
        )
        return of_lines or any(
            run.start_ms <= at_ms < run.end_ms and run.unpriced is not priced for run in self.seconds
        )

    def _holds_gpus(self, at_ms: int) -> bool:
        """Whether GPU-time with a price accrues."""
        return any(
            start <= at_ms < end and rate > 0
            for lines in self.lines
            for line, intervals in lines.items()
            for start, end, rate, _ in intervals
            if line.price.component == "gpu" and line.price.sku != ""
        ) or any(run.start_ms <= at_ms < run.end_ms and not run.unpriced for run in self.seconds)

    def _cuts(self) -> list[int]:
        ends = {edge for piece in self.costs() for edge in piece[:2]}
        ends |= {edge for span in self.paid_spans() for edge in span}
        ends |= {time_ms for time_ms, _ in self.declared}
        return sorted(ends | {edge for plan in self.planned for edge in plan[:2]})

    def is_paid(self, at_ms: int) -> bool:
        return any(start <= at_ms < end for start, end in self.paid_spans())

    def quoted(self) -> Fraction | None:
        """Nano-dollars per hour, after the growth of the start: see docs/burn_rates.md."""
        found: Fraction | None = None
        grown_ms, on_gpus = 0, False
        for at_ms in self._cuts():
            if not self.is_paid(at_ms) or not self._has(at_ms, priced=True) or self._has(at_ms, priced=False):
                continue
            rate, holds = self.rate_at(at_ms) * HOUR_MS, self._holds_gpus(at_ms)
            begins = found is None or (holds and not on_gpus)
            grown = at_ms <= grown_ms + SETTLES_MS and rate > (found or 0) * (1 + Fraction(1, 10**9))
            if begins or grown:
                found, grown_ms, on_gpus = rate, at_ms, on_gpus or holds
            if self.seconds:
                break
        return found

    def unpriced_from_ms(self) -> int:
        return next((at_ms for at_ms in self._cuts() if self._has(at_ms, priced=False)), NEVER_MS)

    def expected_at(self, at_ms: int, quoted: Fraction | None) -> Fraction:
        """Nano-dollars per ms."""
        if not self.is_paid(at_ms):
            return Fraction(0)
        for from_ms, until_ms, rate in self.planned:
            if from_ms <= at_ms < until_ms:
                return Fraction(rate, HOUR_MS)
        named = [rate for time_ms, rate in self.declared if time_ms <= at_ms]
        return Fraction(named[-1] if named else quoted or 0) / HOUR_MS

    def expected(self) -> list[Piece]:
        cuts, quoted = self._cuts(), self.quoted()
        return [(a, b, self.expected_at(a, quoted)) for a, b in zip(cuts, [*cuts, NEVER_MS][1:], strict=True)]

    def figure(self, t_ms: int, window_ms: int) -> Figure:
        lumps: dict[int, naive_burn.Amount] = dict(self.lumps)
        return naive_burn.window(t_ms, window_ms, self.costs(), self.expected(), self.paid_spans(), lumps)

    def noise(self) -> float:
        """What a float64 may leave behind of all that ever accrued, in nano-dollars."""
        sums = (
            naive_burn.between(pieces, 0, NOON_MS + HOUR_MS) for pieces in (self.costs(), self.expected())
        )
        return 1e-12 * float(max(sums)) + 1e-3


times = st.one_of(
    st.integers(BEGIN_MS, NOON_MS + HOUR_MS),
    st.integers(-540, 60).map(lambda minute: NOON_MS + minute * 60_000),
)


@st.composite
def disjoint(draw: st.DrawFn, most: int = 4) -> list[tuple[int, int]]:
    """Ascending spans, some of which touch; the last may go on to the cap."""
    edges = sorted(draw(st.lists(times, max_size=2 * most, unique=True)))
    if draw(st.booleans()):
        edges.append(NOON_MS + 400 * 24 * HOUR_MS)
    touching = draw(st.booleans())
    if touching:
        return list(itertools.pairwise(edges))
    return list(zip(edges[::2], edges[1::2], strict=False))


@st.composite
def lines(draw: st.DrawFn) -> Lines:
    found: Lines = {}
    for price in draw(st.lists(st.sampled_from(PRICES), max_size=3, unique=True)):
        spans = draw(disjoint())
        found[Line("n", "running", price)] = [
            (a, b, draw(st.sampled_from([1, 500, 8000, 64_000])), draw(st.integers(0, 1))) for a, b in spans
        ]
    return found


@st.composite
def runs(draw: st.DrawFn) -> MeteredRun:
    start_ms = draw(times) // 1000 * 1000
    length_ms = draw(st.integers(0, 4000)) * 1000
    return MeteredRun(start_ms, start_ms + length_ms, draw(st.floats(0, 1e7)), draw(st.booleans()))


nano_per_hour = st.one_of(st.just(0), st.integers(1, 10**14))


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    return [(a, b, draw(nano_per_hour)) for a, b in draw(disjoint(2))]


made = st.builds(
    Made,
    lines=st.lists(lines(), max_size=2),
    paid=st.lists(disjoint(3), max_size=2).map(lambda spans: [span for one in spans for span in one]),
    seconds=st.lists(runs(), max_size=3),
    lumps=st.dictionaries(times.map(lambda at_ms: at_ms // 60_000), st.floats(0, 1e12), max_size=5),
    declared=st.lists(st.tuples(times, nano_per_hour), max_size=3).map(
        lambda named: sorted(named, key=lambda entry: entry[0])
    ),
    planned=plans(),
    ended_ms=st.one_of(st.just(NEVER_MS), times),
)
ticks = st.lists(times.map(lambda at_ms: at_ms // 10_000 * 10_000), min_size=1, max_size=4, unique=True).map(
    sorted
)


class Columns(NamedTuple):
    """The steps and lumps of a curve as arrays."""

    from_ms: I64
    cost_rate: F64
    expected_rate: F64
    paid: Bool
    lump_minute: I64
    lump_cost: F64


def columns(curve: Curve) -> Columns:
    """What the curve has, by column."""
    return Columns(
        np.array([step[0] for step in curve.steps], np.int64),
        np.array([step[1] for step in curve.steps], np.float64),
        np.array([step[2] for step in curve.steps], np.float64),
        np.array([step[3] for step in curve.steps], np.bool_),
        np.array([minute for minute, _ in curve.lumps], np.int64),
        np.array([cost for _, cost in curve.lumps], np.float64),
    )


def in_force(curve: Curve, at_ms: int) -> int:
    """The step of a curve at an instant."""
    return bisect_right([step[0] for step in curve.steps], at_ms) - 1
