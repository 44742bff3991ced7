"""Arrow columns straight from arrays: money, instants and repeated texts without a Python object per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.kinds import COUNT, MILLI, MONEY, SECOND


def money(nano: NDArray[np.int64]) -> pa.Array:
    """Nano-dollars as Decimal(18, 9): the 128-bit decimals are written as their bytes."""
    return _decimal(nano, MONEY)


def count(milli: NDArray[np.int64]) -> pa.Array:
    """Thousandths as Decimal(18, 3)."""
    return _decimal(milli, COUNT)


def _decimal(values: NDArray[np.int64], kind: pa.Decimal128Type) -> pa.Array:
    wide = np.empty((len(values), 2), "<i8")  # little-endian low and high half
    wide[:, 0] = values
    wide[:, 1] = values >> 63
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(wide)])


def seconds_of_minutes(minute: NDArray[np.int32]) -> pa.Array:
    """Minutes since 1970 as instants."""
    return pa.array(minute.astype(np.int64) * 60).view(SECOND)


def instants(ms: Sequence[int | None]) -> pa.Array:
    """Milliseconds since 1970 as instants; None stays null."""
    return pa.array(ms, pa.int64()).cast(pa.timestamp("ms")).cast(MILLI)


def take_text(values: Sequence[str], index: NDArray[np.int32]) -> pa.Array:
    """values[index] as a string column."""
    return pa.array(values, pa.string()).take(pa.array(index, pa.int32()))
