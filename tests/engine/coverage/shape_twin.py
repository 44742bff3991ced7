"""What the columns of GPU messages must say, by the general decoder; and messages packed as a fetch brings them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from schemas.decode import decode
from schemas.events import GpuEvent
from streams.engine.coverage.shapes import Parsed, Shape, Shapes
from streams.engine.kernels.arrays import I32, I64, U8
from tests.schemas.records import NOW_MS

NEWEST_MS = NOW_MS + 300_000


class Packed(NamedTuple):
    """Values one after the other, with bytes between them that belong to none."""

    data: U8
    value_at: I64
    value_size: I32


def pack(values: Sequence[bytes | None], between: bytes = b"") -> Packed:
    """`None` is a tombstone."""
    sizes = [0 if value is None else len(value) for value in values]
    ends = np.cumsum([size + len(between) for size in sizes], dtype=np.int64)
    joined = b"".join((value or b"") + between for value in values)
    return Packed(
        np.frombuffer(joined, np.uint8),
        ends - np.array(sizes, np.int64) - len(between),
        np.array([-1 if value is None else len(value) for value in values], np.int32),
    )


def parse(shapes: Shapes, values: Sequence[bytes | None], between: bytes = b"") -> tuple[Parsed, Packed]:
    """The columns of these values."""
    packed = pack(values, between)
    return shapes.parse(*packed, np.full(len(values), NEWEST_MS)), packed


def checked(shapes: Shapes, values: Sequence[bytes | None], between: bytes = b"") -> list[bool]:
    """Which values were taken the quick way; those that were are what the general decoder makes of them."""
    parsed, packed = parse(shapes, values, between)
    planes = (parsed.util, parsed.sm, parsed.tensor, parsed.memory, parsed.power)
    total = int(parsed.value_ptr[-1])
    for plane in planes:
        assert len(plane) in (0, total)
        assert len(plane) == 0 or not np.isnan(plane).all() or total == 0
    for i, value in enumerate(values):
        begin, stop = int(parsed.value_ptr[i]), int(parsed.value_ptr[i + 1])
        if parsed.shape[i] < 0:
            assert begin == stop, value
            continue
        event = decode("gpu", value, (), NEWEST_MS)
        assert isinstance(event, GpuEvent), (value, event)
        assert shapes[int(parsed.shape[i])] == shape_of(event), value
        at, size = int(parsed.id_at[i]), int(parsed.id_size[i])
        found = (int(parsed.time_ms[i]), int(parsed.interval_ms[i]), packed.data[at : at + size].tobytes())
        assert found == (event.time_ms, event.interval_ms, event.id.encode()), value
        lists = (event.util_ratio, event.sm_ratio, event.tensor_ratio, event.memory_used_mib, event.power_w)
        for plane, want in zip(planes, lists, strict=True):
            assert same_numbers(plane[begin:stop].tolist(), want, stop - begin), value
    return [bool(shape >= 0) for shape in parsed.shape]


def shape_of(event: GpuEvent) -> Shape:
    """The text of an event."""
    return Shape(event.source, event.node, event.job_id, event.attempt, tuple(event.gpus), event.fields)


def same_numbers(found: list[float], want: list[float] | None, count: int) -> bool:
    """Bit for bit; none is NaN, or a plane that nobody has."""
    if want is None:
        return not found or (len(found) == count and all(map(math.isnan, found)))
    return [value.hex() for value in found] == [float(value).hex() for value in want]
