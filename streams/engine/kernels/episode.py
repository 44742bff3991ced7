"""Array layouts of alert rules, episodes and alert changes.

No behaviour: the kernels of `judge` update these arrays, and streams/engine/alerts owns them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streams.engine.kernels.arrays import F64, I64, Records, exact

Flags: TypeAlias = NDArray[np.bool_]

TICK_MS = 10_000  # rules are judged at every multiple of 10 s

# The rules, in the order of evaluation; the burn rules come first.
FAST = 0
SUSTAINED = 1
DRIFT = 2
UNPRICED = 3
SILENT = 4
BURN_RULES = 3
RULES = 5

# Kinds of changes.
OPENED = 1
HELD = 2  # still open, with new figures
RECOVERED = 3  # cleared: the condition is over
ENDED = 4  # cleared: the job is over
OUTRANKED = 5  # cleared: a more urgent rule takes precedence

# No instant; sums with it cannot overflow int64.
NEVER_MS = -(2**62)
EPISODE = np.dtype(
    [
        ("open", np.int64),
        ("started_ms", np.int64),
        ("fired_ms", np.int64),  # when it last fired
        ("cleared_ms", np.int64),
        ("held_ms", np.int64),  # the tick of the figures
        ("firings", np.int64),  # 0: no episode
        ("elapsed_ms", np.int64),
        ("cost_nano", np.float64),
        ("expected_nano", np.float64),
        ("short_ratio", np.float64),
        ("silenced", np.int64),
        ("reported_ms", np.int64),  # the last `held_ms` returned, within this call only
    ],
    align=True,
)
CHANGE = np.dtype(
    [("job", np.int64), ("rule", np.int64), ("kind", np.int64), ("at_ms", np.int64)], align=True
)


class RuleLimits(NamedTuple):
    """Per burn rule: the windows (positions in the figures' last axis) and their ratios."""

    long_window: I64
    short_window: I64
    long_ratio: F64
    short_ratio: F64
    clear_ratio: F64


class EpisodeArrays(NamedTuple):
    """The figures as the kernels read them: [tick, job], by window [tick, job, window]."""

    cost_nano: F64
    expected_nano: F64
    elapsed_ms: I64
    paid_whole: Flags
    ended: Flags
    unpriced: Flags
    undecided: Flags
    lapsed: Flags


def as_arrays(figures: EpisodeArrays, ticks: int, jobs: int, windows: int) -> EpisodeArrays:
    """Return the figures in the layout that the kernels were compiled for; they read without bounds checks.

    Raises:
        ValueError: An array has another shape.
    """
    arrays = EpisodeArrays(
        exact(figures.cost_nano, np.float64),
        exact(figures.expected_nano, np.float64),
        exact(figures.elapsed_ms, np.int64),
        exact(figures.paid_whole, np.bool_),
        exact(figures.ended, np.bool_),
        exact(figures.unpriced, np.bool_),
        exact(figures.undecided, np.bool_),
        exact(figures.lapsed, np.bool_),
    )
    for name, array in zip(EpisodeArrays._fields, arrays, strict=True):
        expected = (
            (ticks, jobs) if name in ("ended", "unpriced", "undecided", "lapsed") else (ticks, jobs, windows)
        )
        if array.shape != expected:
            raise ValueError(f"{name}: got the shape {array.shape}, expected {expected}")
    return arrays


def no_episodes(jobs: int) -> Records:
    """Return empty episodes [job, rule]."""
    episodes = np.zeros((jobs, RULES), EPISODE)
    for name in ("started_ms", "fired_ms", "cleared_ms", "held_ms", "reported_ms"):
        episodes[name] = NEVER_MS
    return episodes
