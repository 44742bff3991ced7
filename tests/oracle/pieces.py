"""Paid time of a job in stretches of one cost rate, from its attempts or its samples.

Must import nothing of the project.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from tests.oracle.intake import Sample
from tests.oracle.model import HOUR_MS, Context, context_of
from tests.oracle.prices import PriceBook
from tests.oracle.rows import GPU_TIME_COMPONENTS, JOB_TIME_COMPONENTS, for_labels
from tests.oracle.timeline import Segment

COMPUTE_UNITS = ("instance_milli_ms", "cpu_milli_ms", "memory_gib_milli_ms")
# Every divisor of a price per time divides it (instances of up to 16 GPUs), so that a cost per ms is whole, and so is its
# mean over a second.
SCALE = HOUR_MS * 1000 * 1000 * lcm(*range(1, 17))


class Piece(NamedTuple):
    """Paid time [start, end) of one attempt at one cost per ms."""

    start_ms: int
    end_ms: int
    rate: int
    priced: bool  # something in it has a price
    unpriced: bool  # GPU-time in it has none
    on_gpus: bool  # GPU-time in it has a price
    gpu_milli: int = 0


def timeline_pieces(segment: Segment, team: Context, book: PriceBook) -> Iterator[Piece]:
    """One stretch of paid time, price step by price step."""
    values = segment.values
    context = context_of(values.fields, dict(team))
    gpus = sum(count for _, count in values.places())
    held = [(component, "gpu_milli_ms", gpus) for component in (*GPU_TIME_COMPONENTS, *for_labels(context))]
    counts = (values.instance_milli, values.cpu_milli, values.memory_milli)
    held += [("compute", unit, count) for unit, count in zip(COMPUTE_UNITS, counts, strict=True)]
    held += [(component, "ms", 1) for component in (*JOB_TIME_COMPONENTS, *for_labels(context))]
    for start_ms, end_ms in book.steps(segment.start_ms, segment.end_ms):
        yield _piece(held, context, book, start_ms, end_ms)


def metered_pieces(samples: Iterable[Sample], team: Context, book: PriceBook) -> Iterator[Piece]:
    """The sampled seconds, each minute priced by the newest sample that covers a second of it."""
    of_minute: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.first_s < sample.end_s:  # else it covers no second
            for minute in range(sample.first_s // 60, -(-sample.end_s // 60)):
                of_minute[minute].append(sample)
    for minute, covering in of_minute.items():
        newest = max(covering, key=lambda s: s.newer())
        context = context_of(newest.fields, dict(team))
        # Nothing begins or ends in the minute but at these seconds.
        edges = {min(max(s, minute * 60), minute * 60 + 60) for x in covering for s in (x.first_s, x.end_s)}
        for first_s, end_s in pairwise(sorted(edges)):
            gpus = {(x.node, gpu) for x in covering if x.first_s <= first_s < x.end_s for gpu in x.permille}
            if gpus:
                held = [
                    (component, "gpu_milli_ms", 1000 * len(gpus))
                    for component in (*GPU_TIME_COMPONENTS, *for_labels(context))
                ]
                made = [
                    _piece(held, context, book, *span) for span in book.steps(first_s * 1000, end_s * 1000)
                ]
                yield from whole_seconds(made)


def whole_seconds(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces that follow one another, where a sampled second "has one rate, the mean over it"."""
    cut: list[Piece] = []  # of the second that is not over
    for piece in pieces:
        start_ms = piece.start_ms
        while start_ms < piece.end_ms:
            until_ms = piece.end_ms // 1000 * 1000
            if start_ms % 1000 or until_ms <= start_ms:
                until_ms = min(piece.end_ms, (start_ms // 1000 + 1) * 1000)
            part = piece._replace(start_ms=start_ms, end_ms=until_ms)
            start_ms = until_ms
            if not cut and part.start_ms % 1000 == 0 and part.end_ms % 1000 == 0:
                yield part
                continue
            cut.append(part)
            if part.end_ms % 1000 == 0:
                yield Piece(
                    cut[0].start_ms,
                    part.end_ms,
                    sum(p.rate * (p.end_ms - p.start_ms) for p in cut) // 1000,
                    any(p.priced for p in cut),
                    any(p.unpriced for p in cut),
                    any(p.on_gpus for p in cut),
                    part.gpu_milli,
                )
                cut = []


def _piece(
    held: Iterable[tuple[str, str, int]], context: Context, book: PriceBook, start_ms: int, end_ms: int
) -> Piece:
    """What is held costs, at the prices of the first instant."""
    rate, priced, unpriced, on_gpus = 0, False, False, False
    for component, unit, count in held:
        if count:
            price = book.winner(component, unit, context, start_ms)
            if price is not None:
                if SCALE % price.divisor:
                    raise ValueError(f"a cost of {price.sku} is no whole number of 1/{SCALE} nano-dollars")
                rate += count * price.price_nano * (SCALE // price.divisor)
                priced = True
                on_gpus |= component == "gpu"
            elif component == "gpu":
                unpriced = True
    gpu_milli = sum(count for component, _, count in held if component == "gpu")
    return Piece(start_ms, end_ms, rate, priced, unpriced, on_gpus, gpu_milli)
