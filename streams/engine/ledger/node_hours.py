"""Builds the rows of `node_hours`: what a node was paid for in one hour, whoever used it.

An hour row is absolute: it is summed anew from the node's lines and time of service whenever one of them changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.columns import money, seconds_of_minutes, table_of, take_text
from schemas.durations import HOUR_MS
from schemas.events import PRICE_FIELDS
from schemas.tables import NODE_HOURS, SCHEMAS
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.kernels.hour_sums import sum_hours
from streams.engine.ledger.changed_hours import changed_span, hours_of
from streams.engine.ledger.rows import flat_intervals
from streams.engine.pricing.kinds import PriceRef
from streams.engine.state.hour_measures import MINUTES_PER_HOUR
from streams.engine.state.node import NodeState, OpenNodeHour
from streams.engine.timeline.attempts import OPEN_MS
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Lines
from streams.engine.timeline.nodes import NodeSegment, cut_segments, paid_intervals, starting_intervals

#: The measures of a row.
_PAID, _STARTING, _GPU, _UNPRICED, _COST, _MEASURES = range(6)
_NO_DIMENSIONS: Final = ("",) * (len(PRICE_FIELDS) + 1)


def changed_node_hours(node: NodeState, lines: Lines, as_of_ms: int) -> set[int]:
    """Return the hours in which a node's lines, time of service or dimensions differ from those booked."""
    new = cut_segments(node.segments(), as_of_ms)
    old = node.booked_segments
    spans = [(segment.start_ms, segment.end_ms) for segment in new] if old is None else []
    pairs = [(node.booked_lines.get(line, []), lines.get(line, [])) for line in node.booked_lines | lines]
    if old is not None:
        places: dict[tuple[str, ...], int] = {}
        before, after = (
            _pieces(segments, places) for segments in (cut_segments(old, node.booked_as_of_ms), new)
        )
        pairs.append((before, after))
    spans += [changed_span(before, after) for before, after in pairs if before != after]
    return {hour for span in spans for hour in hours_of(span)}


def _pieces(segments: Iterable[NodeSegment], places: dict[tuple[str, ...], int]) -> list[Interval]:
    """Return time of service as intervals whose rate stands for the dimensions, and for whether the node was on its way."""
    return [
        (
            segment.start_ms,
            segment.end_ms,
            2 * places.setdefault(segment.dimensions, len(places)) + segment.is_starting,
            0,
        )
        for segment in segments
    ]


class _Time(Enum):
    """Time of a node that is no quantity of a price."""

    SERVICE = "service"
    STARTING = "starting"


class NodeHourRows:
    """Hours of nodes to be written."""

    def __init__(self) -> None:
        # By row.
        self._nodes: list[str] = []
        self._hours = array("q")
        self._dimensions = array("i")
        self._dimension_index: dict[tuple[str, ...], int] = {}
        # By node.
        self._piece_ptr = array("q", [0])
        # By curve.
        self._owners = array("i")
        self._prices = array("i")
        self._price_index: dict[PriceRef | _Time, int] = {}
        self._curves: list[Sequence[Interval]] = []

    def add(self, node: NodeState, hours: Iterable[int], as_of_ms: int) -> None:
        """Add these hours of a node, of which everything up to the accrual instant is booked."""
        wanted = sorted(hours)
        if not wanted:
            return
        segments, known = node.segments(), node.open_hour
        if (
            known is not None
            and known.segments is segments
            and known.as_of_ms <= as_of_ms
            and wanted == [known.hour]
        ):
            paid = known.paid
            paid[-1] = (paid[-1][0], as_of_ms, *paid[-1][2:])
            known.as_of_ms = as_of_ms
            self._add_row(node.name, known.hour, known.dimensions)
        else:
            paid = paid_intervals(segments, as_of_ms)
            for hour in wanted:
                dimensions = _dimensions_in(segments, as_of_ms, hour)
                self._add_row(node.name, hour, dimensions)
            node.open_hour = None
            if segments and _is_open(segments[-1], hour, as_of_ms):
                node.open_hour = OpenNodeHour(hour, segments, as_of_ms, dimensions, paid)
        owner = len(self._piece_ptr) - 1
        self._piece_ptr.append(len(self._hours))
        self._add_curve(owner, _Time.SERVICE, paid)
        if starting := starting_intervals(segments, as_of_ms):
            self._add_curve(owner, _Time.STARTING, starting)
        for line, intervals in node.booked_lines.items():
            self._add_curve(owner, line.price, intervals)

    def _add_row(self, node: str, hour: int, dimensions: tuple[str, ...]) -> None:
        self._nodes.append(node)
        self._hours.append(hour)
        self._dimensions.append(self._dimension_index.setdefault(dimensions, len(self._dimension_index)))

    def _add_curve(self, owner: int, price: PriceRef | _Time, intervals: Sequence[Interval]) -> None:
        self._owners.append(owner)
        self._prices.append(self._price_index.setdefault(price, len(self._price_index)))
        self._curves.append(intervals)

    def table(self, shard: int, version: int) -> pa.Table:
        """Return the rows as a `node_hours` table."""
        size = len(self._hours)
        sums = np.zeros((size, _MEASURES), np.int64)
        hours = np.array(self._hours, np.int64)
        ptr, start, end, rate, lost = flat_intervals(self._curves)
        price, prices = np.array(self._prices, np.int32), list(self._price_index)
        sum_hours(
            ptr, start, end, rate, lost, np.array(self._owners, np.int32),
            np.array([0 if isinstance(each, _Time) else each.usd_nano for each in prices], np.int64)[price],
            np.array([1 if isinstance(each, _Time) else each.divisor for each in prices], np.int64)[price],
            np.array([_columns_of(each) for each in prices], np.int32)[price],
            np.array(self._piece_ptr, np.int64), hours * HOUR_MS, (hours + 1) * HOUR_MS, np.arange(size), sums,
        )  # fmt: skip
        place = np.arange(size, dtype=np.int32)
        columns: dict[str, pa.Array] = {
            "hour": seconds_of_minutes((hours * MINUTES_PER_HOUR).astype(np.int32)),
            "node": take_text(self._nodes, place),
            "paid_ms": pa.array(sums[:, _PAID].copy()),
            "starting_ms": pa.array(sums[:, _STARTING].copy()),
            "gpu_milli_ms": pa.array(sums[:, _GPU].copy()),
            "unpriced_gpu_milli_ms": pa.array(sums[:, _UNPRICED].copy()),
            "cost_usd": money(np.minimum(sums[:, _COST], MAX_COST_NANO)),
            "shard": pa.array(np.full(size, shard, np.uint16)),
            "version": pa.array(np.full(size, version, np.uint64)),
        }
        dimensions = np.array(self._dimensions, np.int32)
        for number, name in enumerate((*PRICE_FIELDS, "team")):
            columns[name] = take_text([each[number] for each in self._dimension_index], dimensions)
        return table_of(SCHEMAS[NODE_HOURS], columns)

    def __bool__(self) -> bool:
        return bool(self._nodes)


def _is_open(last: NodeSegment, hour: int, as_of_ms: int) -> bool:
    """Whether time alone makes the last segment longer, and the accrual instant is in this hour."""
    is_of_hour = hour * HOUR_MS < as_of_ms <= (hour + 1) * HOUR_MS
    return last.goes_on and last.end_ms == OPEN_MS and last.start_ms < as_of_ms and is_of_hour


def _columns_of(price: PriceRef | _Time) -> tuple[int, int, int, int, int, int]:
    """Return the measures of quantity, lost quantity, cost, lost cost, and again quantity and lost cost; -1: none."""
    if isinstance(price, _Time):
        return (_PAID if price is _Time.SERVICE else _STARTING, -1, -1, -1, -1, -1)
    if price.component != "gpu":
        return (-1, -1, _COST, -1, -1, -1)
    return (_GPU, -1, _COST, -1, -1 if price.sku else _UNPRICED, -1)


def _dimensions_in(segments: Sequence[NodeSegment], as_of_ms: int, hour: int) -> tuple[str, ...]:
    """Return the dimensions that the node had last in an hour, up to the accrual instant."""
    begin_ms, end_ms = hour * HOUR_MS, (hour + 1) * HOUR_MS
    for segment in reversed(segments):
        until_ms = segment.billed_until_ms(as_of_ms)
        if segment.start_ms < min(until_ms, end_ms) and until_ms > begin_ms:
            return segment.dimensions
    return _NO_DIMENSIONS


def emptied_node_hours(rows: pa.Table, shard: int, version: int) -> pa.Table:
    """Return stored rows of `node_hours` with all measures 0."""
    zeros = np.zeros(len(rows), np.int64)
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    for name in ("paid_ms", "starting_ms", "gpu_milli_ms", "unpriced_gpu_milli_ms"):
        columns[name] = pa.array(zeros)
    columns["cost_usd"] = money(zeros)
    columns["shard"] = pa.array(np.full(len(rows), shard, np.uint16))
    columns["version"] = pa.array(np.full(len(rows), version, np.uint64))
    return table_of(SCHEMAS[NODE_HOURS], columns)
