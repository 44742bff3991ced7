"""Parses GPU messages by shape: the constant text that hundreds of messages of one exporter share.

A shape is learned from a record that the general decoder accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.decode import decode
from schemas.events import GpuEvent
from streams import fallbacks
from streams.engine.coverage.arrays import grown
from streams.engine.coverage.names import HolderNames
from streams.engine.kernels.arrays import F64, I32, I64, U8, equal_lengths, exact
from streams.engine.kernels.gpu_json import Batch, GpuColumns, drop_refused, parse_gpu
from streams.engine.kernels.gpu_keys import PLANES, UTIL
from streams.engine.kernels.gpu_slots import FOUND_SIZE, MAX_GPUS
from streams.engine.kernels.skeletons import (
    ENTRIES,
    MOST_SPANS,
    SEED,
    TEXT,
    USED_SIZE,
    Table,
    fill_skeletons,
)
from streams.fallbacks import GPU_SHAPE

MOST_SHAPES: Final = 200_000
MOST_TEXT_BYTES: Final = 2**26
#: Messages of ended jobs do not return: a table of more shapes than this is cleared once three of four shapes have not
#: occurred in as many records as would show each of them eight times.
SPARE_SHAPES: Final = 1024
_ROUNDS: Final = 8

_SMALLEST = 64
_SMALLEST_TEXT = 2**14
# Arrays of a Table with one element per skeleton.
_BY_NUMBER = ("hashes", "text_at", "text_size", "is_refused", "first_record", "next", "has", "gpus")
# A GPU and its value take five bytes at least, as in `"",` and `0,`.
_BYTES_PER_VALUE = 5


class Shape(NamedTuple):
    """The fields of a shape as in a GpuEvent: '' for idle GPUs, attempt 1 where none is given."""

    source: str
    node: str
    job_id: str
    attempt: int
    gpus: tuple[str, ...]
    fields: dict[str, str]


class Parsed(NamedTuple):
    """Records as columns; `shape` -1: the record must be decoded by `schemas.decode`, and has no values here.

    [n]: `shape`; where it is not -1 also `time_ms`, `interval_ms`, and `id_at`, `id_size`: the span of the id in the
    data, size 0 without one. The others are flat: record i has [value_ptr[i], value_ptr[i + 1]), in the order of its
    shape's GPUs. NaN where a record has none; length 0 where no record has any. All are views of memory that the next
    parse overwrites. `shapes`: by number, None where one was refused; it only grows, and a cleared table begins another.
    """

    shape: I32
    time_ms: I64
    interval_ms: I64
    id_at: I64
    id_size: I32
    value_ptr: I64
    util: F64
    sm: F64
    tensor: F64
    memory: F64
    power: F64
    shapes: Sequence[Shape | None]

    def kept(self) -> Parsed:
        """The same in memory of its own."""
        return self._replace(
            **{name: getattr(self, name).copy() for name in self._fields if name != "shapes"}
        )


class Shapes:
    """A table of shapes; numbers are valid while `generation` is unchanged. Not thread-safe.

    It is cleared before a parse if it has `most` shapes, or `most_text_bytes` of their text, or if most of them are no
    longer in use; one batch may exceed these limits.
    """

    def __init__(
        self,
        most: int = MOST_SHAPES,
        most_text_bytes: int = MOST_TEXT_BYTES,
        is_ours: Callable[[str, str], bool] = lambda _job_id, _node: True,
    ) -> None:
        """`is_ours`: whether samples of a (job, node) belong to this shard; called once per shape."""
        self._is_ours = is_ours
        self.generation = 0
        self._most = most
        self._most_text_bytes = most_text_bytes
        self._shapes: list[Shape | None] = []  # None: refused
        self._table = _empty_table()
        self._columns = _columns(0, 0)
        self._came = np.zeros(
            1, np.bool_
        )  # by shape, since the last check; the last entry counts records without a shape
        self._records = 0  # since the last check

    def __len__(self) -> int:
        """A bound above all numbers in use."""
        return len(self._shapes)

    def __getitem__(self, index: int) -> Shape:
        """The shape of a number from parse().

        Raises:
            IndexError: There is no such shape.
        """
        shape = self._shapes[index] if index >= 0 else None
        if shape is None:
            raise IndexError(f"no shape {index}")
        return shape

    def parse(self, data: U8, value_at: I64, value_size: I32, newest_allowed_ms: I64) -> Parsed:
        """Parse the records at `value_at` in the data; `value_size` is -1 for a tombstone.

        An event later than its `newest_allowed_ms` is left to the general decoder.

        Raises:
            ValueError: A value is outside the data.
        """
        n = equal_lengths(value_at, value_size, newest_allowed_ms)
        ends = value_at + value_size
        if n and (int(value_at.min()) < 0 or int(ends.max()) > len(data)):
            raise ValueError("a value outside the data")
        self._evict_for(n, int(np.maximum(value_size, 0).sum()))
        view = data.view()
        view.flags.writeable = False  # as fetched bytes are: one signature for all
        batch = Batch(
            view, exact(value_at, np.int64), exact(value_size, np.int32), exact(newest_allowed_ms, np.int64)
        )
        out = _first(self._columns, n)
        done = 0
        while (done := parse_gpu(done, batch, out, self._table)) < n:
            self._grow_table(int(value_size[done]))
        self._learn(batch, out)
        self._add(out.shape)
        return _parsed(out, self._shapes)

    def _evict_for(self, n: int, size_bytes: int) -> None:
        used = self._table.used
        is_full = used[ENTRIES] >= self._most or used[TEXT] >= self._most_text_bytes
        # They differ after an exception in between.
        if is_full or used[ENTRIES] != len(self._shapes) or self._is_sparse():
            self.generation += 1
            self._shapes = []
            self._table = _empty_table()
            self._reset_unknown()
        room = size_bytes // _BYTES_PER_VALUE + MAX_GPUS + 1
        if len(self._columns.shape) < n or len(self._columns.values) < PLANES * room:
            self._columns = _columns(n * 5 // 4, room * 5 // 4)

    def _is_sparse(self) -> bool:
        """Whether few of the shapes are still in use; checked once per so many records."""
        entries = len(self._shapes)
        if entries <= SPARE_SHAPES or self._records < _ROUNDS * entries:
            return False
        in_use = int(np.count_nonzero(self._came[:-1]))
        self._reset_unknown()
        return in_use * 4 < entries

    def _reset_unknown(self) -> None:
        self._came = np.zeros(len(self._shapes) * 5 // 4 + 1, np.bool_)
        self._records = 0

    def _add(self, shape: I32) -> None:
        if len(self._came) <= len(self._shapes):
            self._came = np.append(self._came[:-1], np.zeros(len(self._shapes) + 1, np.bool_))
        self._came[shape] = True
        self._records += len(shape)

    def _grow_table(self, text_bytes: int) -> None:
        """Make room for at least one more skeleton of that size."""
        old = self._table
        used, room, text = int(old.used[ENTRIES]), len(old.hashes), int(old.used[TEXT]) + text_bytes
        if used < room:
            self._table = old._replace(text=grown(old.text, max(text, _SMALLEST_TEXT)))
            return
        room = max(_SMALLEST, 2 * room)
        cells = np.zeros(1 << (2 * room - 1).bit_length(), np.int32)
        lines = {name: grown(getattr(old, name), room) for name in _BY_NUMBER}
        self._table = old._replace(cells=cells, spans=grown(old.spans, room * MOST_SPANS), **lines)
        fill_skeletons(self._table)

    def _learn(self, batch: Batch, out: GpuColumns) -> None:
        """Decode the first record of each new skeleton."""
        table, known = self._table, len(self._shapes)
        first = table.first_record[known : table.used[ENTRIES]]
        fallbacks.counts[GPU_SHAPE] += len(first)
        shapes = [self._ours(_shape_of(batch, i)) for i in first.tolist()]
        refused = [known + place for place, shape in enumerate(shapes) if shape is None]
        if refused:
            table.is_refused[refused] = 1
            drop_refused(out, table)
        self._shapes += shapes

    def _ours(self, shape: Shape | None) -> Shape | None:
        return shape if shape is not None and self._is_ours(shape.job_id, shape.node) else None


def _shape_of(batch: Batch, i: int) -> Shape | None:
    """The shape of a record's text; None if it must be left to the general decoder, as when it repeats a GPU."""
    at, size = int(batch.value_at[i]), int(batch.value_size[i])
    event = decode("gpu", batch.data[at : at + size].tobytes(), (), int(batch.newest_allowed_ms[i]))
    if not isinstance(event, GpuEvent) or len(set(event.gpus)) < len(event.gpus):
        return None
    return Shape(event.source, event.node, event.job_id, event.attempt, tuple(event.gpus), event.fields)


def _empty_table() -> Table:
    """A table with a random hash seed, so that no sender can know which messages share a cell."""
    used = np.zeros(USED_SIZE, np.int64)
    used[SEED] = hash("skeletons") & (2**62 - 1)

    def none(dtype: type[np.generic]) -> NDArray[Any]:
        return np.zeros(0, dtype)

    return Table(
        cells=np.zeros(2, np.int32),
        hashes=none(np.int64),
        text_at=none(np.int64),
        text_size=none(np.int32),
        is_refused=none(np.uint8),
        first_record=none(np.int32),
        next=none(np.int32),
        has=none(np.int32),
        gpus=none(np.int32),
        spans=none(np.int32),
        text=none(np.uint8),
        used=used,
    )


def _columns(n: int, room: int) -> GpuColumns:
    """Columns for `n` records and `room` values."""
    return GpuColumns(
        shape=np.zeros(n, np.int32),
        time_ms=np.zeros(n, np.int64),
        interval_ms=np.zeros(n, np.int64),
        id_at=np.zeros(n, np.int64),
        id_size=np.zeros(n, np.int32),
        value_ptr=np.zeros(n + 1, np.int64),
        planes=np.zeros(n, np.uint8),
        values=np.empty(PLANES * room, np.float64),
        found=np.zeros(FOUND_SIZE, np.int64),
    )


def _first(columns: GpuColumns, n: int) -> GpuColumns:
    """The first n records."""
    return columns._replace(
        shape=columns.shape[:n],
        time_ms=columns.time_ms[:n],
        interval_ms=columns.interval_ms[:n],
        id_at=columns.id_at[:n],
        id_size=columns.id_size[:n],
        value_ptr=columns.value_ptr[: n + 1],
        planes=columns.planes[:n],
    )


def _parsed(out: GpuColumns, shapes: Sequence[Shape | None]) -> Parsed:
    """The columns in the form for callers."""
    room, total = len(out.values) // PLANES, int(out.value_ptr[-1])
    has = int(np.bitwise_or.reduce(out.planes)) | 1 << UTIL
    planes = [out.values[plane * room :][: total if (has >> plane) & 1 else 0] for plane in range(PLANES)]
    times = out.shape, out.time_ms, out.interval_ms
    util, sm, tensor, memory, power = planes
    return Parsed(*times, out.id_at, out.id_size, out.value_ptr, util, sm, tensor, memory, power, shapes)


_UNKNOWN = -1


class ShapeGroups:
    """Groups by the index of a shape."""

    def __init__(self, names: HolderNames) -> None:
        self._names = names
        self._shapes: Sequence[Shape | None] = ()
        self._epoch = -1
        self._group = np.zeros(0, np.int32)

    def of(self, shapes: Sequence[Shape | None], index: I32) -> I32:
        """The group of each shape ([n] int32) by its number. New shapes are added."""
        if shapes is not self._shapes or self._epoch != self._names.epoch:
            self._shapes, self._epoch, self._group = shapes, self._names.epoch, np.zeros(0, np.int32)
        if len(self._group) < len(shapes):
            larger = np.full(max(len(shapes), 2 * len(self._group)), _UNKNOWN, np.int32)
            larger[: len(self._group)] = self._group
            self._group = larger
        groups: I32 = self._group[index]
        missing = groups == _UNKNOWN
        if missing.any():
            unknown = np.unique(index[missing]).tolist()
            found = [
                shape for number in unknown if (shape := shapes[number]) is not None
            ]  # no record is refused
            self._group[unknown] = self._names.groups(shape[1:5] for shape in found)
            groups = self._group[index]
        return groups
