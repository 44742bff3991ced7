"""The window sums of all jobs at some ticks, as arrays [tick, job] and [tick, job, window].

Compare them with a tolerance: money is float64 here, with a relative error of about 1e-12.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schemas.durations import HOUR_MS
from streams.engine.kernels.arrays import F64, I64
from streams.engine.kernels.burn import WINDOWS_MS, Bool


class WindowFigures(NamedTuple):
    """Windows are those of WINDOWS_MS, jobs those of the book at the time of the call."""

    now_rate: F64  # [tick, job] nano-dollars per hour at the tick
    expected_rate: F64  # [tick, job] nano-dollars per hour expected at the tick, 0 where nothing is billed
    ended: Bool  #: [tick, job]
    undecided: Bool  # [tick, job] an attempt failed or was preempted recently, and a next one may follow
    paid_now: Bool  # [tick, job] billed at the tick; sampled time holds for a while
    since_paid_ms: I64  # [tick, job] since the first billed instant, 0 before it
    facts: I64  # [tick, job] bit r: fact r holds
    cost_nano: F64  #: [tick, job, window]
    expected_nano: F64  #: [tick, job, window]
    traffic_nano: F64  # [tick, job, window] the part of the cost that does not accrue with time
    basis_nano: F64  # [tick, job, window] the part that another purchase than before adds
    elapsed_ms: I64  # [tick, job, window] the part of the window since the first billed instant, 0 before it
    paid_whole: Bool  # [tick, job, window] billed at every instant of the window
    ended_ms: I64  #: [job]
    steady_nano: F64  # [tick, job] of jobs on GPUs: the least traffic of the last three hours, each by itself
    repeated_nano: (
        F64  # [tick, job] likewise if it comes in bursts, or half of the least of three spans of two hours
    )
    recurring_nano: F64  # [tick, job] likewise: the lesser traffic of the last two spans of two hours
    start_nano: F64  # [job] the traffic of the first paid hour and before
    deadline_ms: I64  # [job] NEVER_MS: none
    profile: I64  # [job] which settings of rules apply

    @property
    def shape(self) -> tuple[int, int]:
        """The number of ticks and of jobs."""
        ticks, jobs = self.now_rate.shape
        return ticks, jobs

    @classmethod
    def empty(cls, ticks: int, jobs: int) -> WindowFigures:
        """Arrays of that size, not initialised."""
        flat, deep = (ticks, jobs), (ticks, jobs, len(WINDOWS_MS))
        return cls(
            now_rate=np.empty(flat),
            expected_rate=np.empty(flat),
            ended=np.empty(flat, np.bool_),
            undecided=np.empty(flat, np.bool_),
            paid_now=np.empty(flat, np.bool_),
            since_paid_ms=np.empty(flat, np.int64),
            facts=np.empty(flat, np.int64),
            cost_nano=np.empty(deep),
            expected_nano=np.empty(deep),
            traffic_nano=np.empty(deep),
            basis_nano=np.empty(deep),
            elapsed_ms=np.empty(deep, np.int64),
            paid_whole=np.empty(deep, np.bool_),
            ended_ms=np.empty(jobs, np.int64),
            steady_nano=np.empty(flat),
            repeated_nano=np.empty(flat),
            recurring_nano=np.empty(flat),
            start_nano=np.empty(jobs),
            deadline_ms=np.empty(jobs, np.int64),
            profile=np.empty(jobs, np.int64),
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
