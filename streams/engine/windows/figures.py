"""The window sums of all jobs at some ticks, as arrays [tick, job] and [tick, job, window].

Must not be compared without slack: money is float64 here, right to about 1e-12 of all that accrued.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streams.engine.kernels.arrays import F64, I64
from streams.engine.kernels.burn import HOUR_MS, WINDOWS_MS, Bool


class WindowFigures(NamedTuple):
    """Windows are those of WINDOWS_MS, jobs those of the book at the time of the call."""

    now_rate: F64  #: [tick, job] nano-dollars per hour that accrue at the tick
    expected_rate: F64  #: [tick, job] nano-dollars per hour expected at the tick, 0 where it is not paid
    ended: Bool  #: [tick, job]
    unpriced: Bool  #: [tick, job] there is GPU-time without a price before the tick
    undecided: Bool  #: [tick, job] an attempt broke off a moment ago, and the next one may be on its way
    lapsed: Bool  #: [tick, job] it runs, and nothing was heard of it for long
    cost_nano: F64  #: [tick, job, window]
    expected_nano: F64  #: [tick, job, window]
    elapsed_ms: I64  #: [tick, job, window] the part of the window since the first paid instant, 0 before it
    paid_whole: Bool  #: [tick, job, window] paid at every instant of the window
    ended_ms: I64  #: [job]

    @property
    def shape(self) -> tuple[int, int]:
        """How many ticks and jobs."""
        ticks, jobs = self.now_rate.shape
        return ticks, jobs

    @classmethod
    def empty(cls, ticks: int, jobs: int) -> WindowFigures:
        """Arrays of that size, not filled."""
        flat, deep = (ticks, jobs), (ticks, jobs, len(WINDOWS_MS))
        return cls(
            now_rate=np.empty(flat),
            expected_rate=np.empty(flat),
            ended=np.empty(flat, np.bool_),
            unpriced=np.empty(flat, np.bool_),
            undecided=np.empty(flat, np.bool_),
            lapsed=np.empty(flat, np.bool_),
            cost_nano=np.empty(deep),
            expected_nano=np.empty(deep),
            elapsed_ms=np.empty(deep, np.int64),
            paid_whole=np.empty(deep, np.bool_),
            ended_ms=np.empty(jobs, np.int64),
        )


def per_hour(cost_nano: F64, elapsed_ms: I64) -> F64:
    """Nano-dollars per hour; 0 where no time has passed."""
    rates = np.zeros(cost_nano.shape)
    np.divide(cost_nano * HOUR_MS, elapsed_ms, out=rates, where=elapsed_ms > 0)
    return rates


def ratios(cost_nano: F64, expected_nano: F64) -> F64:
    """Cost / expected cost; 0 where nothing is expected, which is not judged."""
    quotients = np.zeros(cost_nano.shape)
    np.divide(cost_nano, expected_nano, out=quotients, where=expected_nano > 0)
    return quotients
