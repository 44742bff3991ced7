"""Builds the rows of sampled attempts: GPU-seconds, priced by the newest sample of each minute.

Coverage is read for many minutes at once; what was booked is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from schemas.durations import BEGINNING_MS, MINUTE_MS, NEVER_MS
from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.arrays import U16, U64
from streams.engine.kernels.sampled_minutes import minute_pieces
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Part, Payer, time_parts, usage_context
from streams.engine.pricing.history import PriceHistory
from streams.engine.pricing.kinds import SHOWN_UNPRICED, Kind, PriceRef, unpriced
from streams.engine.state.attempt import Winner
from streams.engine.state.job import JobState
from streams.engine.timeline.lines import Line, price_pieces

#: Thousandths of a GPU x ms in one sampled GPU-second.
MILLI_MS_PER_GPU_S: Final = 1000 * 1000
#: (holder, minute) pairs per lookup: enough to make the kernel call worthwhile, few enough to be used soon.
_PAIRS_AT_ONCE: Final = 4096
#: Limit of cached lines per book; nodes come and go.
_LINES_AT_MOST: Final = 200_000


class NodeSeconds(NamedTuple):
    """Covered GPU-seconds of a node in a minute, and their row in the coverage.

    `seconds`: bit s is set if any of its GPUs covers second s of the minute.
    """

    node: str
    gpu_s: int
    row: int
    seconds: int


class SampledMinutes:
    """The sampled seconds of metered minutes; dirty minutes of the next jobs are looked up along with the first."""

    def __init__(self, coverage: Coverage, upcoming: Iterable[JobState]) -> None:
        self._coverage = coverage
        self._upcoming = iter(upcoming)
        self._found: dict[tuple[str, int], dict[int, list[NodeSeconds]]] = {}

    def by_node(
        self, job_id: str, attempt: int, minutes: Sequence[int]
    ) -> Mapping[int, Sequence[NodeSeconds]]:
        """Return the coverage of each of the minutes, by node."""
        found = self._found.pop((job_id, attempt), {})
        missing = [minute for minute in minutes if minute not in found]
        if missing:
            self._find([(job_id, attempt, missing), *self._next()])
            found |= self._found.pop((job_id, attempt))
        return found

    def counts(self, seconds: NodeSeconds) -> U16:
        """Return covered GPUs of the node: [60] uint16, by second of the minute."""
        counts: U16 = self._coverage.counts(np.array([seconds.row], np.int64))[0]
        return counts

    def _next(self) -> Iterator[tuple[str, int, Sequence[int]]]:
        pairs = 0
        for job in self._upcoming:
            for number, attempt in job.attempts.items():
                if attempt.dirty_metered and not attempt.has_start:
                    pairs += len(attempt.dirty_metered)
                    yield job.id, number, list(attempt.dirty_metered)
            if pairs >= _PAIRS_AT_ONCE:
                return

    def _find(self, wanted: Iterable[tuple[str, int, Sequence[int]]]) -> None:
        places: list[list[NodeSeconds]] = []
        nodes: list[str] = []
        holders: list[int] = []
        pair_minutes: list[int] = []
        for job_id, attempt, minutes in wanted:
            by_minute: dict[int, list[NodeSeconds]] = {minute: [] for minute in minutes}
            self._found[job_id, attempt] = by_minute
            for number in self._coverage.holders_of(job_id, attempt):
                places += by_minute.values()
                nodes += [self._coverage.holder(number)[2]] * len(minutes)
                holders += [number] * len(minutes)
                pair_minutes += by_minute
        rows, sampled = self._coverage.find_rows(
            np.array(holders, np.int64), np.array(pair_minutes, np.int64)
        )
        covered = np.flatnonzero(sampled)
        rows, sampled = rows[covered], sampled[covered]
        seconds = _second_bits(self._coverage.counts(rows)).tolist()
        found = zip(covered.tolist(), sampled.tolist(), rows.tolist(), seconds, strict=True)
        for pair, gpu_s, row, bits in found:
            places[pair].append(NodeSeconds(nodes[pair], gpu_s, row, bits))


def sampled_s(nodes: Iterable[NodeSeconds]) -> int:
    """Return in how many seconds of a minute any GPU of any node was sampled."""
    bits = 0
    for node in nodes:
        bits |= node.seconds
    return bits.bit_count()


def _second_bits(counts: U16) -> U64:
    """Return the seconds of each row with a count ([n, 60] uint16) as bits ([n] uint64)."""
    packed = np.zeros((len(counts), 8), np.uint8)
    packed[:, :8] = np.packbits(np.pad(counts > 0, ((0, 0), (0, 4))), axis=1, bitorder="little")
    bits: U64 = packed.view("<u8")[:, 0]
    return bits


@dataclass(slots=True)
class _Stretch:
    """Time [from_ms, until_ms) in which no price changes, and the lines of each node seen in it."""

    from_ms: int
    until_ms: int
    prices: tuple[PriceRef, ...]
    lines: dict[str, tuple[Line, ...]]
    book: PriceBook
    sources: list[tuple[PriceHistory, ...]]  # what determined the prices


class MinutePrices:
    """The rows of metered minutes by the newest price book.

    Prices change rarely while minutes are derived each second, so the price of a minute is cached with the time around
    it in which it holds.
    """

    def __init__(self, book: PriceBook) -> None:
        self.book = book  # may be set to a newer one
        self._stretches: dict[tuple[tuple[str, ...], Payer], _Stretch] = {}
        self._lines = 0

    def rows(
        self,
        minute: int,
        winner: Winner,
        holders: Sequence[NodeSeconds],
        sampled: SampledMinutes,
        payer: Payer,
    ) -> dict[Line, tuple[int, int]]:
        """Return line -> (quantity, 0)."""
        start_ms = minute * MINUTE_MS
        stretch = self._stretches.get((winner.fields, payer))
        if stretch is not None and stretch.book is not self.book:
            stretch = self._still(stretch, winner, payer)
        if stretch is None or not stretch.from_ms <= start_ms <= stretch.until_ms - MINUTE_MS:
            stretch = self._stretch(winner, payer, start_ms)
            if stretch.until_ms < start_ms + MINUTE_MS:
                return self._cut_rows(start_ms, winner, holders, sampled, payer)
        rows: dict[Line, tuple[int, int]] = {}
        for node, gpu_s, _, _ in holders:
            lines = stretch.lines.get(node)
            if lines is None:
                lines = stretch.lines[node] = tuple(Line(node, "metered", price) for price in stretch.prices)
                self._lines += 1
            for line in lines:
                rows[line] = (gpu_s * MILLI_MS_PER_GPU_S, 0)
        return rows

    def _stretch(self, winner: Winner, payer: Payer, at_ms: int) -> _Stretch:
        """Return the time around an instant in which no price changes."""
        if self._lines > _LINES_AT_MOST:
            self._stretches.clear()
            self._lines = 0
        parts = _parts(winner, payer)
        begin_ms, end_ms = BEGINNING_MS, NEVER_MS
        prices: list[PriceRef] = []
        for component, context in parts:
            from_ms, until_ms, found = self.book.stretch(context, component, Kind.GPU_TIME, at_ms)
            begin_ms, end_ms = max(begin_ms, from_ms), min(end_ms, until_ms)
            if found is not None:
                prices.append(found)
            elif component in SHOWN_UNPRICED:
                prices.append(unpriced(component, Kind.GPU_TIME))
        stretch = self._stretches[winner.fields, payer] = _Stretch(
            begin_ms, end_ms, tuple(prices), {}, self.book, _sources(self.book, parts)
        )
        return stretch

    def _still(self, stretch: _Stretch, winner: Winner, payer: Payer) -> _Stretch | None:
        """Return the stretch if everything that determined its prices is the same in the newer book, else None."""
        if stretch.sources != _sources(self.book, _parts(winner, payer)):
            return None
        stretch.book = self.book
        return stretch

    def _cut_rows(
        self,
        start_ms: int,
        winner: Winner,
        holders: Sequence[NodeSeconds],
        sampled: SampledMinutes,
        payer: Payer,
    ) -> dict[Line, tuple[int, int]]:
        """Return the rows of a minute in which a price changes, split by its seconds."""
        rows: dict[Line, tuple[int, int]] = {}
        for component, context in _parts(winner, payer):
            steps = self.book.steps(context, component, Kind.GPU_TIME, start_ms, start_ms + MINUTE_MS)
            pieces = list(price_pieces(steps, start_ms, start_ms + MINUTE_MS, component, Kind.GPU_TIME))
            if not pieces:
                continue
            for seconds in holders:
                for (_, _, price), quantity in zip(
                    pieces, _cut(sampled.counts(seconds), start_ms, pieces), strict=True
                ):
                    if quantity:
                        line = Line(seconds.node, "metered", price)
                        rows[line] = (rows.get(line, (0, 0))[0] + quantity, 0)
        return rows


def _parts(winner: Winner, payer: Payer) -> tuple[Part, ...]:
    context = usage_context(winner.price_fields, payer.team, payer.project)
    return time_parts(Kind.GPU_TIME, context, payer.labels)


def _sources(book: PriceBook, parts: Iterable[Part]) -> list[tuple[PriceHistory, ...]]:
    return [book.sources(context, component, Kind.GPU_TIME) for component, context in parts]


def _cut(counts: U16, start_ms: int, pieces: Sequence[tuple[int, int, object]]) -> list[int]:
    """Return the GPU-time of each priced piece of the minute; time between pieces has no price and is not booked."""
    edges = sorted(
        {0, *(edge - start_ms for piece in pieces for edge in piece[:2] if edge < start_ms + MINUTE_MS)}
    )
    quantities = minute_pieces(
        counts.reshape(1, -1), np.array([0, len(edges)], np.int64), np.array(edges, np.int32)
    ).tolist()
    by_edge = dict(zip(edges, quantities, strict=True))
    ends = {from_ms - start_ms: until_ms - start_ms for from_ms, until_ms, _ in pieces}
    return [sum(by_edge[edge] for edge in edges if begin <= edge < end) for begin, end in ends.items()]
