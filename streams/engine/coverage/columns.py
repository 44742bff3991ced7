"""What a coverage hands out: plain columns.

Must not hold behaviour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.engine.kernels.arrays import I32, I64


class FoldResult(NamedTuple):
    """What a batch did."""

    late: int  # samples of a GPU that came too late for it
    all_late: NDArray[np.bool_]  # by record: all of its GPUs were late
    touched: I64  # the records that cover a second of a GPU which was not late, idle ones never


class UsageRows(NamedTuple):
    """Columns of usage rows."""

    holder: I32
    minute: I32
    sampled_gpu_s: I64
    productive_gpu_ms: I64
    sm_gpu_ms: I64
    sm_sampled_gpu_s: I64
    tensor_gpu_ms: I64
    tensor_sampled_gpu_s: I64
    memory_used_mib_max: I64
    power_w_max: I64
