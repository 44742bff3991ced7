"""What a coverage says of a batch, and what it is asked for sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.engine.kernels.arrays import I64


class FoldResult(NamedTuple):
    """The result of a batch."""

    late: int  # samples that were too late for their GPU
    all_late: NDArray[np.bool_]  # by record: whether all of its GPUs were late
    touched: I64  # records that cover a second of a GPU in time


class UsagePiece(NamedTuple):
    """The minutes [lo_minute, hi_minute) of an attempt, whose usage belongs to a row of sums."""

    job_id: str
    attempt: int
    lo_minute: int
    hi_minute: int
    row: int
