"""Builds ledger lines from billed segments and prices: the closed form of an attempt's rows.

A line is one ledger key without its minute; its intervals are when it accrues and how fast. The quantity of any minute
is the sum of overlap x rate, so a late or corrected event re-derives only what it touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from schemas.durations import NEVER_MS
from schemas.units import WATT
from streams.engine.pricing.book import PriceBook, Steps
from streams.engine.pricing.context import INSTANCE_TYPE, Context, Payer, time_parts, usage_context
from streams.engine.pricing.kinds import COMPUTE, SHOWN_UNPRICED, Kind, PriceRef, unpriced
from streams.engine.timeline.attempts import Segment
from streams.engine.timeline.intervals import Interval, Span, split_at
from streams.engine.timeline.values import Values

#: Of traffic: the values of FLOW_FIELDS, '' where there is none; of anything else it is empty.
Flow = tuple[str, ...]


class Line(NamedTuple):
    """A ledger row's key within an attempt, without the minute."""

    node: str
    phase: str
    price: PriceRef
    flow: Flow = ()

    @property
    def row_key(self) -> tuple[str, str, str, str, str, int, Flow]:
        """The part of the key that identifies its rows in the tables.

        A revision that is published again with another price makes another line, but the same rows.
        """
        price = self.price
        return (self.node, self.phase, price.component, price.unit, price.sku, price.effective_ms, self.flow)


Lines = dict[Line, list[Interval]]


def attempt_lines(
    segments: Iterable[Segment],
    lost: tuple[Span, ...],
    book: PriceBook,
    payer: Payer,
) -> Lines:
    """All lines of an attempt's billed time; GPU-time by node, other time without one.

    Where all its nodes have no GPUs, instances are shared out to them. What no price of `compute` applies to is shown as
    unpriced unless the price of GPUs includes it.
    """
    lines: Lines = {}
    for segment in segments:
        context = usage_context(segment.values.fields, payer.team, payer.project)
        pieces = split_at((segment.start_ms, segment.end_ms), lost)
        for kind, holders in _holders(segment):
            for component, asked in time_parts(kind, context, payer.labels):
                steps = book.steps(asked, component, kind, segment.start_ms, segment.end_ms)
                for start_ms, end_ms, flag in pieces:
                    for from_ms, until_ms, price in price_pieces(steps, start_ms, end_ms, component, kind):
                        for node, rate in holders:
                            _extend(lines, Line(node, segment.phase, price), (from_ms, until_ms, rate, flag))
        if (needed := _needs_compute_price(segment)) is not None:
            line_price = unpriced(COMPUTE, needed.kind)
            for span in without_compute_price(needed.kinds, context, book, segment.start_ms, segment.end_ms):
                for start_ms, end_ms, flag in split_at(span, lost):
                    for node, rate in needed.holders:
                        line = Line(node, segment.phase, line_price)
                        _extend(lines, line, (start_ms, end_ms, rate, flag))
    return lines


class _NeedsPrice(NamedTuple):
    """What a segment holds of a kind, and the kinds of which a price of any one is enough."""

    kind: Kind
    holders: Sequence[tuple[str, int]]
    kinds: Sequence[Kind]


def _needs_compute_price(segment: Segment) -> _NeedsPrice | None:
    """What is unpriced without a price of `compute`; None: nothing.

    Energy is. Of other time, the price of GPUs includes the machine; without GPUs it is of instances, else of CPUs, else of
    memory.
    """
    held = [*_holders(segment)]
    if segment.values.fields[INSTANCE_TYPE] == WATT:
        watts = next((each for kind, each in held if kind is Kind.INSTANCE_TIME), None)
        if watts is not None:
            return _NeedsPrice(Kind.INSTANCE_TIME, watts, (Kind.INSTANCE_TIME,))
    if segment.values.gpu_milli or held[0][0] is Kind.JOB_TIME:
        return None
    return _NeedsPrice(*held[0], [kind for kind, _ in held])


def without_compute_price(
    kinds: Iterable[Kind], context: Context, book: PriceBook, start_ms: int, end_ms: int
) -> Iterator[Span]:
    """Yield where in [start_ms, end_ms) no price of `compute` applies to any of these kinds of time."""
    priced: list[Span] = []
    for kind in kinds:
        steps = book.steps(context, COMPUTE, kind, start_ms, end_ms)
        pieces = price_pieces(steps, start_ms, end_ms, COMPUTE, kind)
        priced += [(from_ms, until_ms) for from_ms, until_ms, _ in pieces]
    begin_ms = start_ms
    for from_ms, until_ms in sorted(priced):
        if begin_ms < from_ms:
            yield begin_ms, from_ms
        begin_ms = max(begin_ms, until_ms)
    if begin_ms < end_ms:
        yield begin_ms, end_ms


def differs_from_ms(one: Lines, other: Lines) -> int:
    """The first instant at which two results of one attempt's time differ; NEVER_MS: they do not."""
    found = NEVER_MS
    for line in one.keys() | other.keys():
        mine, theirs = one.get(line, []), other.get(line, [])
        for before, after in zip_longest(mine, theirs):
            if before == after:
                continue
            if before is not None and after is not None and before[0] == after[0] and before[2:] == after[2:]:
                found = min(found, before[1], after[1])
            else:
                found = min([found, *(each[0] for each in (before, after) if each is not None)])
            break
    return found


def price_pieces(
    steps: Steps, start_ms: int, end_ms: int, component: str, kind: Kind
) -> Iterator[tuple[int, int, PriceRef]]:
    """Yield [start, end) cut where the price changes; unpriced parts only of components that show them."""
    for position, (from_ms, price) in enumerate(steps):
        until_ms = steps[position + 1][0] if position + 1 < len(steps) else end_ms
        piece_start, piece_end = max(from_ms, start_ms), min(until_ms, end_ms)
        if piece_start >= piece_end:
            continue
        if price is not None:
            yield piece_start, piece_end, price
        elif component in SHOWN_UNPRICED:
            yield piece_start, piece_end, unpriced(component, kind)


def _holders(segment: Segment) -> Iterator[tuple[Kind, list[tuple[str, int]]]]:
    """Yield, for each kind of time, the (node, quantity per ms) that accrue in the segment."""
    values = segment.values
    nodes = [("", values.gpu_milli)] if values.nodes is None else list(values.nodes)
    for kind, holders in (
        (Kind.GPU_TIME, nodes),
        (Kind.INSTANCE_TIME, _instances(segment.values)),
        (Kind.CPU_TIME, [("", values.cpu_milli)]),
        (Kind.MEMORY_TIME, [("", values.memory_milli)]),
        (Kind.JOB_TIME, [("", 1)]),
    ):
        accruing = [(node, rate) for node, rate in holders if rate]
        if accruing:
            yield kind, accruing


def _instances(values: Values) -> list[tuple[str, int]]:
    """Instances by node: evenly over nodes without GPUs where all are named, else without a node."""
    nodes = values.nodes
    if not nodes or values.gpu_milli:
        return [("", values.instance_milli)]
    each, more = divmod(values.instance_milli, len(nodes))
    return [(node, each + (place < more)) for place, (node, _) in enumerate(nodes)]


def _extend(lines: Lines, line: Line, interval: Interval) -> None:
    """Add an interval; merge it with the last one if it continues it."""
    intervals = lines.setdefault(line, [])
    if intervals:
        start_ms, end_ms, rate, flag = intervals[-1]
        if end_ms == interval[0] and (rate, flag) == interval[2:]:
            intervals[-1] = (start_ms, interval[1], rate, flag)
            return
    intervals.append(interval)
