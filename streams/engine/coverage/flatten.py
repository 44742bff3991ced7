"""Converts GPU events to the flat arrays of the fold kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from schemas.events import GpuEvent
from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.names import HolderNames
from streams.engine.kernels.arrays import F64
from streams.engine.kernels.store import Samples

# Minutes are int32 in the rows.
_TIME_LIMIT_MS = 2**31 * 60_000

Values = Sequence[list[float] | None]


def flatten(records: Sequence[GpuEvent], names: HolderNames, arrays: CoverageArrays) -> Samples:
    """The batch as arrays.

    Raises:
        ValueError: A value is one that the decoder refuses; kernels do not check it.
    """
    groups = names.groups_of(records)
    group = np.array(groups, np.int32)
    time_ms = np.array([record.time_ms for record in records], np.int64)
    interval_ms = np.array([record.interval_ms for record in records], np.int64)
    if len(records) and not (time_ms.min() >= 0 and time_ms.max() < _TIME_LIMIT_MS and interval_ms.min() > 0):
        raise ValueError("time_ms or interval_ms out of range")
    sizes = arrays.store.group_ptr[group + 1] - arrays.store.group_ptr[group]
    value_ptr = np.zeros(len(records) + 1, np.int64)
    np.cumsum(sizes, out=value_ptr[1:])

    def plane(values: Values) -> F64:
        return _plane(values, groups, value_ptr, names)

    util = plane([record.util_ratio for record in records])
    sm = plane([record.sm_ratio for record in records])
    tensor = plane([record.tensor_ratio for record in records])
    for ratio in (util, sm, tensor):
        if bool(((ratio < 0) | (ratio > 1)).any()):
            raise ValueError("a ratio outside [0, 1]")
    if bool(np.isnan(util).any()):
        raise ValueError("util_ratio is not a number")
    return Samples(
        group=group,
        begin_s=(time_ms - interval_ms) // 1000,
        end_s=time_ms // 1000,
        value_ptr=value_ptr,
        util=util,
        sm=sm,
        tensor=tensor,
        memory=plane([record.memory_used_mib for record in records]),
        power=plane([record.power_w for record in records]),
        late=np.zeros(len(records), np.int32),
        covers=np.zeros(len(records), np.uint8),
    )


def _plane(values: Values, groups: list[int], value_ptr: np.ndarray, names: HolderNames) -> F64:
    """The concatenated values of distinct GPUs; NaN where a record has none, empty if no record has any."""
    if values.count(None) == len(values):
        return np.empty(0, np.float64)
    repeated = names.repeated
    lists: list[list[float]] = []
    for i, group in enumerate(groups):
        found = values[i]
        if found is None:
            found = [np.nan] * int(value_ptr[i + 1] - value_ptr[i])
        elif value_ptr[i + 1] == value_ptr[i]:
            found = []  # no GPU of it is kept
        elif group in repeated:
            # A GPU repeated in one record: the largest value counts.
            found = [max(found[place] for place in places) for places in repeated[group]]
        lists.append(found)
    total = int(value_ptr[-1])
    if sum(map(len, lists)) != total:
        raise ValueError("arrays of unequal length in a record")
    return np.fromiter(chain.from_iterable(lists), np.float64, total)
