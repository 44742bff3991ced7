"""Stored rows in columns of plain values, and all of them in the oracle's words: of any store of the tests.

Quantities and costs are taken as they are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from schemas.tables import (
    ATTEMPT_GPUS,
    ATTEMPTS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    KEYS,
    NODE_HOURS,
    NODE_MINUTES,
    UNATTRIBUTED_MINUTES,
)
from tests.oracle.model import (
    COMPONENTS,
    PRICE_FIELDS,
    AttemptRow,
    HourKey,
    HourRow,
    JobRow,
    LedgerKey,
    LedgerRow,
    NodeHourRow,
    NodeKey,
    NodeRow,
    Tables,
    UnattributedRow,
    UsageRow,
)

_TIMESTAMP = pa.timestamp("ms").id
_DECIMAL = pa.decimal128(18).id

#: (table, columns) -> (key, the columns' values) of each current row; instants and money as integers.
Select = Callable[[str, Sequence[str]], Iterable[tuple[Any, ...]]]


class Rows:
    """Rows as they were inserted, with their columns as Python values where these are asked for."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self._columns: dict[str, list[Any]] = {}
        self._values: dict[str, list[Any]] = {}

    def column(self, name: str) -> list[Any]:
        """A column's values; instants and money as integers."""
        found = self._columns.get(name)
        if found is None:
            column = self.rows[name]
            kind = column.type.id
            if kind in (_TIMESTAMP, _DECIMAL):
                column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            if kind == _TIMESTAMP:
                column = column.view(pa.int64())
            if kind == _DECIMAL:  # as a count of its last place; none is wider than 64 bits
                whole = np.frombuffer(column.buffers()[1], np.int64)[::2]
                found = whole[column.offset : column.offset + len(column)].tolist()
            else:
                found = column.to_pylist()
            self._columns[name] = found
        return found

    def values(self, name: str) -> list[Any]:
        """A column's values as Arrow has them: instants as datetimes, money as decimals."""
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self.rows[name].to_pylist()
        return found

    def keys(self, table: str) -> Iterable[tuple[Any, ...]]:
        """The key of each row."""
        return zip(*(self.column(name) for name in KEYS[table]), strict=True)


_MONEY = ("quantity", "cost_usd", "lost_quantity", "lost_cost_usd")
_USAGE = ("sampled_gpu_s", "productive_gpu_ms", "tensor_gpu_ms", "tensor_sampled_gpu_s")
_HOUR = (
    *(
        "wall_clock_ms",
        "queued_ms",
        "starting_ms",
        "gpu_milli_ms",
        "lost_gpu_milli_ms",
        "unpriced_gpu_milli_ms",
        "sampled_gpu_ms",
        "productive_gpu_ms",
        "tensor_gpu_ms",
        "tensor_sampled_gpu_ms",
    ),
    *(f"{component}_cost_usd" for component in COMPONENTS),
    "lost_cost_usd",
    "starting_lost_cost_usd",
)
_NODE_MEASURES = ("paid_ms", "starting_ms", "gpu_milli_ms", "unpriced_gpu_milli_ms", "cost_usd")
_SPANS = ("wall_clock_from_ms", "wall_clock_until_ms")
_NODE_HOUR = (*PRICE_FIELDS, "team", *_NODE_MEASURES)
_JOB = (
    "state",
    "attempts",
    "owner",
    "team",
    "project",
    "experiment",
    "run_id",
    "work_dir",
    "labels",
    "quality",
    "progress",
    "wall_clock_ms",
)


def tables_of(select: Select) -> Tables:
    """What a store holds; without dead letters and counts."""
    found = Tables()
    for key, quantity, cost_nano, lost, lost_nano in select(JOB_MINUTES, _MONEY):
        if quantity:
            job_id, attempt, minute_s, *rest = key
            where = LedgerKey(minute_s // 60, job_id, attempt, *rest)
            found.ledger[where] = LedgerRow(quantity, cost_nano, lost, lost_nano)
    for key, begins, ends, *values in select(JOB_HOURS, (*_SPANS, *_HOUR)):
        if any(values):
            job_id, attempt, hour_s, *fields = key
            where_hour = HourKey(job_id, attempt, hour_s // 3600, tuple(fields))
            measures, costs = values[: -len(COMPONENTS) - 2], values[-len(COMPONENTS) - 2 :]
            by_minute = _by_minute(hour_s * 1000, zip(begins, ends, strict=True))
            found.hours[where_hour] = HourRow._make((*measures, tuple(costs[:-2]), *costs[-2:], by_minute))
    for key, *values in select(JOB_USAGE_MINUTES, _USAGE):
        job_id, attempt, minute_s, _ = key
        so_far = found.usage.get((minute_s // 60, job_id, attempt), UsageRow(0, 0, 0, 0))
        found.usage[minute_s // 60, job_id, attempt] = UsageRow(*map(add, so_far, values))
    found.gpus = {key: None for key, *_ in select(ATTEMPT_GPUS, ("version",))}
    _add_nodes(select, found)
    for key, *values, labels, quality, progress, wall_clock_ms in select(JOBS, _JOB):
        state, attempts, *names = values
        owner, team, project, experiment, run_id, work_dir = (name or None for name in names)
        said = (owner, team, project, experiment, tuple(sorted(labels)))
        found.jobs[key[0]] = JobRow(
            state,
            attempts,
            *said,
            wall_clock_ms,
            tuple(sorted(quality)),
            tuple(sorted(progress)),
            run_id,
            work_dir,
        )
    for key, state, wall_clock_ms in select(ATTEMPTS, ("state", "wall_clock_ms")):
        found.attempts[key] = AttemptRow(state, wall_clock_ms)
    return found


def _by_minute(hour_ms: int, spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """How much of each minute spans of an hour cover."""
    found: Counter[int] = Counter()
    for from_ms, until_ms in spans:
        assert 0 <= from_ms < until_ms <= 3_600_000
        for start_ms in range(from_ms - from_ms % 60_000, until_ms, 60_000):
            inside_ms = min(until_ms, start_ms + 60_000) - max(from_ms, start_ms)
            found[(hour_ms + start_ms) // 60_000] += inside_ms
    return tuple(sorted(found.items()))


def _add_nodes(select: Select, found: Tables) -> None:
    """Add what a store holds of nodes."""
    for key, *measures in select(UNATTRIBUTED_MINUTES, ("sampled_s", "productive_ms")):
        node, gpu, minute_s = key
        found.unattributed[minute_s // 60, node, gpu] = UnattributedRow(*measures)
    for key, quantity, cost_nano in select(NODE_MINUTES, _MONEY[:2]):
        if quantity:
            node, minute_s, *rest = key
            found.nodes[NodeKey(minute_s // 60, node, *rest)] = NodeRow(quantity, cost_nano)
    for key, *values in select(NODE_HOURS, _NODE_HOUR):
        dimensions, measures = values[: -len(_NODE_MEASURES)], values[-len(_NODE_MEASURES) :]
        if any(measures):
            found.node_hours[key[0], key[1] // 3600] = NodeHourRow(tuple(dimensions), *measures)
