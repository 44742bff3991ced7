"""Cuts a job's paid time into stretches in which nothing changes: what it holds and pays, all attempts together.

A pure function of timelines and lines; rates are rounded once from exact sums, so that the order of lines must not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import lcm
from operator import itemgetter
from typing import NamedTuple

from schemas.durations import BEGINNING_MS
from streams.engine.timeline.attempts import OPEN_MS, Segment, Timeline
from streams.engine.timeline.lines import Line, Lines


class SkuRate(NamedTuple):
    """What a SKU costs: its price as published, and its part of the rate in nano-dollars per ms."""

    usd_nano: int
    rate: float


class Stretch(NamedTuple):
    """Paid time [from_ms, until_ms). `units`: thousandths of what `noun` says; `fields`: of the highest attempt."""

    from_ms: int
    until_ms: int
    attempts: tuple[int, ...]
    noun: str  # GPU, instance, CPU or job
    units: int
    fields: tuple[str | None, ...]
    prices: Mapping[str, SkuRate]
    rate: float  # nano-dollars per ms
    unpriced: bool  # GPU-time has no price


class _Edge(NamedTuple):
    """The begin or end of something: a segment of an attempt, or a quantity per ms of a line."""

    at_ms: int
    attempt: int
    begins: bool
    segment: Segment | None
    line: Line | None
    quantity: int


def stretches(
    timelines: Mapping[int, Timeline], lines: Mapping[int, Lines], since_ms: int = BEGINNING_MS
) -> Iterator[Stretch]:
    """Yield the stretches of the time from an instant on, in order; `lines` are those of the paid attempts.

    The last one of an open attempt is open.
    """
    held: dict[int, Segment] = {}
    paid: dict[tuple[int, Line], int] = {}
    edges = sorted(_edges(timelines, lines, since_ms), key=itemgetter(0, 2))  # what ends goes first
    for position, edge in enumerate(edges):
        if edge.segment is not None:
            if edge.begins:
                held[edge.attempt] = edge.segment
            else:
                held.pop(edge.attempt, None)
        elif edge.line is not None:
            key = edge.attempt, edge.line
            paid[key] = paid.get(key, 0) + (edge.quantity if edge.begins else -edge.quantity)
            if not paid[key]:
                del paid[key]
        until_ms = edges[position + 1].at_ms if position + 1 < len(edges) else edge.at_ms
        if until_ms > edge.at_ms and held:
            yield _stretch(edge.at_ms, until_ms, held, paid)


def _edges(timelines: Mapping[int, Timeline], lines: Mapping[int, Lines], since_ms: int) -> Iterator[_Edge]:
    for attempt, of_attempt in lines.items():
        for segment in timelines[attempt].paid(OPEN_MS):
            start_ms = max(segment.start_ms, since_ms)
            if start_ms < segment.end_ms:
                yield _Edge(start_ms, attempt, True, segment, None, 0)
                yield _Edge(segment.end_ms, attempt, False, segment, None, 0)
        for line, intervals in of_attempt.items():
            for begin_ms, end_ms, quantity, _ in intervals:
                start_ms = max(begin_ms, since_ms)
                if quantity and start_ms < end_ms:
                    yield _Edge(start_ms, attempt, True, None, line, quantity)
                    yield _Edge(end_ms, attempt, False, None, line, quantity)


def _stretch(
    from_ms: int, until_ms: int, held: Mapping[int, Segment], paid: Mapping[tuple[int, Line], int]
) -> Stretch:
    # Exact: in parts of a nano-dollar per ms of which all divisors are multiples.
    parts = lcm(*{line.price.divisor for _, line in paid})
    rates: dict[str, tuple[int, int]] = {}
    unpriced = False
    for (_, line), quantity in paid.items():
        price = line.price
        if not price.sku:
            unpriced = unpriced or price.component == "gpu"
            continue
        before = rates[price.sku][1] if price.sku in rates else 0
        rates[price.sku] = price.usd_nano, before + quantity * price.usd_nano * (parts // price.divisor)
    values = [segment.values for segment in held.values()]
    sizes = {
        "GPU": sum(each.gpu_milli for each in values),
        "instance": sum(each.instance_milli for each in values),
        "CPU": sum(each.cpu_milli for each in values),
    }
    noun = next((name for name, units in sizes.items() if units), "job")
    return Stretch(
        from_ms=from_ms,
        until_ms=until_ms,
        attempts=tuple(sorted(held)),
        noun=noun,
        units=sizes.get(noun, 1000),
        fields=held[max(held)].values.fields,
        prices={sku: SkuRate(usd_nano, rate / parts) for sku, (usd_nano, rate) in rates.items()},
        rate=sum(rate for _, rate in rates.values()) / parts,
        unpriced=unpriced,
    )
