"""Builds the cost of one job over time as step functions, by a sweep over the intervals of its lines.

Nothing here is cut at the accrual instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS, HOUR_MS, MINUTE_MS, NEVER_MS
from streams.engine.kernels.burn import REPORTED_WITHIN_MS
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines
from streams.engine.windows.expected import Expected
from streams.engine.windows.requested_start import RequestedStart

#: Twice the longest usual sampling interval of exporters.
METERED_HOLDS_MS: Final = 120_000
#: A job whose rate has not grown for this long has been started.
SETTLES_MS: Final = 10 * MINUTE_MS
#: Traffic comes in bursts if no more than this share of so many minutes has each at least this share of their mean.
_BURST_MINUTES: Final = 180
_BURST_MOST: Final = 2 / 3
_BURST_LEAST: Final = 0.1
#: Rates are summed as integers, multiples of 2**-40 nano-dollars per ms, so that sums return to exactly zero.
_FRACTION_BITS: Final = 40
_ONE: Final = float(1 << _FRACTION_BITS)


class MeteredRun(NamedTuple):
    """Sampled time [start_ms, end_ms) of a metered attempt.  `unpriced`: its GPU-time has no price."""

    start_ms: int
    end_ms: int
    cost_rate: float  # nano-dollars per ms
    unpriced: bool


#: (from_ms, cost rate, expected rate (0 where not billed), billed); rates in nano-dollars per ms.
CurveStep = tuple[int, float, float, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Step functions, of which the last step has no end, and lumps by minute."""

    job_id: str
    first_paid_ms: int  #: -1: none
    ended_ms: int  #: NEVER_MS while it goes on
    unpriced_from_ms: int  #: the first instant of GPU-time without a price, NEVER_MS: none
    quoted_nano_per_hour: float | None  #: None until there is a paid and priced instant
    steps: Sequence[CurveStep]  #: ascending, the first from BEGINNING_MS on; most curves have two or three
    holds_ms: int  # a metered job counts as open for this long after its last sample
    lumps: Sequence[tuple[int, float]]  #: minute, ascending, and nano-dollars
    #: Until then a next attempt may follow one that failed or was preempted; 0: there was none.
    undecided_until_ms: int = 0
    quoted: QuotedRate | None = None  # as of the last step
    start_nano: float = 0.0  # the lumps of the first paid hour and before

    @property
    def on_gpus(self) -> bool:
        """Whether GPUs are among what it pays for, as far as they have a price."""
        return self.quoted is not None and self.quoted.on_gpus

    @property
    def in_bursts(self) -> bool:
        """Whether the lumps are."""
        return are_in_bursts(self.lumps)


def are_in_bursts(lumps: Sequence[tuple[int, float]]) -> bool:
    """Whether nearly all of the lumps of the last three hours before the newest are in some minutes only."""
    last = lumps[-1][0] if lumps else 0
    recent = [cost for minute, cost in lumps if minute > last - _BURST_MINUTES]
    least = _BURST_LEAST * fsum(recent) / _BURST_MINUTES
    return sum(cost >= least for cost in recent) <= _BURST_MOST * _BURST_MINUTES


def recent_lumps(lumps: Mapping[int, float], since_ms: int) -> list[tuple[int, float]]:
    """The lumps by minute that windows at or after `since_ms` may ask for, ascending."""
    known_ms = since_ms - REPORTED_WITHIN_MS
    return sorted((m, cost) for m, cost in lumps.items() if cost and (m + 1) * MINUTE_MS > known_ms)


class QuotedRate(NamedTuple):
    """The rate that a job was started with, in nano-dollars per hour: that of the last growth of its start."""

    grown_ms: int
    nano_per_hour: float
    on_gpus: bool  # whether priced GPUs were held then


class Settled(NamedTuple):
    """What a curve needs of attempts that are over before all its detail: nothing of them changes."""

    until_ms: int = BEGINNING_MS  # the last end
    first_paid_ms: int = -1
    unpriced_from_ms: int = NEVER_MS
    quoted: QuotedRate | None = None


class _Step(NamedTuple):
    """State from `from_ms` on: the cost rate in fractions, and the number of open intervals of each sort."""

    from_ms: int
    rate: int
    priced: int
    unpriced: int
    paid: int
    gpus: int  # of the priced ones


_NOTHING: Final = _Step(BEGINNING_MS, 0, 0, 0, 0, 0)


def build_curve(
    job_id: str,
    *,
    lines: Iterable[Lines],
    paid: Iterable[Span],
    seconds: Sequence[MeteredRun],
    lumps: Mapping[int, float],
    declared: Sequence[tuple[int, int]],
    planned: Sequence[tuple[int, int, int]],
    ended_ms: int,
    since_ms: int,
    undecided_until_ms: int = 0,
    settled: Settled | None = None,
    start: RequestedStart | None = None,
) -> Curve:
    """Build the curve of a job from the lines and billed time of its attempts, open ones up to the cap of 400 days.

    `declared` (time_ms, nano-dollars per hour) is in the order of its events; `planned` (from_ms, until_ms,
    nano-dollars per hour) is disjoint. Detail before `since_ms` is left out: only windows after it may be queried.
    `settled`: attempts before it that are not among the lines; `start`: what is known of the size of its start.
    """
    past = Settled() if settled is None else settled
    paid = list(paid)
    lines = list(lines)
    alone = None if seconds else _one_span(lines, paid)
    steps = _sweep(_edges(lines, paid, seconds)) if alone is None else alone
    rate = _quoted(steps, past, start, grows=not seconds)
    quoted = None if rate is None else rate.nano_per_hour
    expected = Expected(declared, planned, quoted or 0.0)
    rows = _since(_with_expected(steps, expected), since_ms, had_any=past.first_paid_ms >= 0)
    starts_ms = [past.first_paid_ms, next((step.from_ms for step in steps if step.paid), -1)]
    unpriced_from_ms = next((step.from_ms for step in steps if step.unpriced), NEVER_MS)
    return Curve(
        job_id=job_id,
        first_paid_ms=min((at_ms for at_ms in starts_ms if at_ms >= 0), default=-1),
        ended_ms=ended_ms,
        unpriced_from_ms=min(past.unpriced_from_ms, unpriced_from_ms),
        quoted_nano_per_hour=quoted,
        steps=rows,
        holds_ms=METERED_HOLDS_MS if seconds and not paid else 0,
        lumps=recent_lumps(lumps, since_ms),
        undecided_until_ms=undecided_until_ms,
        quoted=rate,
    )


def _quoted(
    steps: Sequence[_Step], past: Settled, start: RequestedStart | None, *, grows: bool
) -> QuotedRate | None:
    """The rate at the first paid and priced instant, or after the growth of the start; None: there is none yet.

    The start goes on while the rate grows within `SETTLES_MS` of the last growth, and begins again with the first GPUs. Where the
    size is requested it goes on until that is held, and no longer.
    """
    found = past.quoted
    rate_before = 0
    for step in steps:
        if not step.paid or not step.priced or step.unpriced or step.from_ms < past.until_ms:
            continue
        # Growth is judged at the instant at which it comes, not at a later one at which more is requested.
        has_grown, rate_before = step.rate > rate_before, step.rate
        if found is None:
            found = QuotedRate(step.from_ms, _per_hour(step.rate), step.gpus > 0)
            continue
        if not grows:
            break
        begins = step.gpus > 0 and not found.on_gpus
        is_start = step.from_ms <= found.grown_ms + SETTLES_MS
        if start is not None:
            said = start.is_growth(step.from_ms)
            is_start = is_start if said is None else said
        if begins or (is_start and has_grown and _per_hour(step.rate) > found.nano_per_hour * (1 + 1e-9)):
            found = QuotedRate(step.from_ms, _per_hour(step.rate), found.on_gpus or step.gpus > 0)
        elif found.on_gpus and not is_start and start is None:
            break
    return found


def _one_span(lines: Sequence[Lines], paid: Sequence[Span]) -> list[_Step] | None:
    """The steps of a job that is billed once, at one rate, as nearly all are; None of any other."""
    if len(paid) != 1:
        return None
    start_ms, end_ms = span = paid[0]
    if start_ms >= end_ms:
        return None
    rate = priced = unpriced = gpus = 0
    for of_attempt in lines:
        for line, intervals in of_attempt.items():
            if len(intervals) != 1:
                return None
            price, (from_ms, until_ms, quantity, _) = line.price, intervals[0]
            if (from_ms, until_ms) != span or quantity <= 0:
                return None
            rate += _fractions(quantity * price.usd_nano, price.divisor)
            priced += price.sku != ""
            unpriced += price.sku == "" and price.component == "gpu"
            gpus += price.sku != "" and price.component == "gpu"
    return [_NOTHING, _Step(start_ms, rate, priced, unpriced, 1, gpus), _Step(end_ms, 0, 0, 0, 0, 0)]


def _edges(lines: Iterable[Lines], paid: Iterable[Span], seconds: Sequence[MeteredRun]) -> list[_Step]:
    """The changes at the beginnings and ends of intervals."""
    edges: list[_Step] = []
    for of_attempt in lines:
        for line, intervals in of_attempt.items():
            price = line.price
            priced, unpriced = int(price.sku != ""), int(price.sku == "" and price.component == "gpu")
            gpus = int(price.component == "gpu") - unpriced
            for start_ms, end_ms, quantity, _ in intervals:
                if start_ms < end_ms and quantity > 0:
                    rate = _fractions(quantity * price.usd_nano, price.divisor)
                    edges.append(_Step(start_ms, rate, priced, unpriced, 0, gpus))
                    edges.append(_Step(end_ms, -rate, -priced, -unpriced, 0, -gpus))
    for start_ms, end_ms in paid:
        if start_ms < end_ms:
            edges.append(_Step(start_ms, 0, 0, 0, 1, 0))
            edges.append(_Step(end_ms, 0, 0, 0, -1, 0))
    for run in seconds:
        if run.start_ms < run.end_ms:
            rate, priced, unpriced = round(run.cost_rate * _ONE), int(not run.unpriced), int(run.unpriced)
            edges.append(_Step(run.start_ms, rate, priced, unpriced, 1, priced))
            edges.append(_Step(run.end_ms, -rate, -priced, -unpriced, -1, -priced))
    edges.sort()
    return edges


def _sweep(edges: Sequence[_Step]) -> list[_Step]:
    """Sum changes to steps; omit a step without a change."""
    steps = [_NOTHING]
    at_ms, rate, priced, unpriced, paid, gpus = _NOTHING
    for edge in edges:
        if edge.from_ms != at_ms:
            _add(steps, _Step(at_ms, rate, priced, unpriced, paid, gpus))
            at_ms = edge.from_ms
        rate += edge.rate
        priced += edge.priced
        unpriced += edge.unpriced
        paid += edge.paid
        gpus += edge.gpus
    _add(steps, _Step(at_ms, rate, priced, unpriced, paid, gpus))
    return steps


def _add(steps: list[_Step], step: _Step) -> None:
    if step[1:] != steps[-1][1:]:
        steps.append(step)


def _with_expected(steps: Sequence[_Step], expected: Expected) -> list[CurveStep]:
    """Cut the steps where the expected rate changes, which is 0 outside billed time."""
    rows: list[CurveStep] = []
    for position, step in enumerate(steps):
        until_ms = steps[position + 1].from_ms if position + 1 < len(steps) else NEVER_MS
        pieces = expected.between(step.from_ms, until_ms) if step.paid else [(step.from_ms, 0.0)]
        for from_ms, per_hour in pieces:
            row = (from_ms, step.rate / _ONE, per_hour / HOUR_MS, step.paid > 0)
            if not rows or row[1:] != rows[-1][1:]:
                rows.append(row)
    return rows


def unpriced_from_ms(lines: Lines) -> int:
    """The first instant of GPU-time without a price in these lines; NEVER_MS: there is none."""
    return min(
        (
            start_ms
            for line, intervals in lines.items()
            if line.price.sku == "" and line.price.component == "gpu"
            for start_ms, end_ms, quantity, _ in intervals
            if start_ms < end_ms and quantity > 0
        ),
        default=NEVER_MS,
    )


def _since(rows: list[CurveStep], since_ms: int, *, had_any: bool) -> list[CurveStep]:
    """The rows from `since_ms` on, after the initial empty step; `had_any`: there were others before these."""
    first = 0
    while first + 1 < len(rows) and rows[first + 1][0] <= since_ms:
        first += 1
    if first == 0 and not had_any:
        return rows
    return [rows[0], (since_ms, *rows[first][1:]), *rows[first + 1 :]]


def _fractions(numerator: int, divisor: int) -> int:
    """The quotient in fractions, rounded to nearest."""
    return ((numerator << (_FRACTION_BITS + 1)) // divisor + 1) >> 1


def _per_hour(rate: int) -> float:
    return rate * HOUR_MS / _ONE
