"""Array layouts of alert rules, episodes and alert changes.

No behaviour: the kernels of `judge` update these arrays, and streams/engine/alerts owns them.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schemas.durations import BEGINNING_MS
from streams.engine.kernels.arrays import F64, I64, Records, exact

Flags: TypeAlias = NDArray[np.bool_]

TICK_MS = 10_000  # rules are judged at every multiple of 10 s

# The rules that kernels know, in the order of evaluation; the burn rules come first, the others are facts. More facts may
# follow: how many rules there are, the arrays of episodes say.
FAST = 0
SUSTAINED = 1
DRIFT = 2
UNPRICED = 3
SILENT = 4
RETRY_LOOP = 5
IDLE_GPUS = 6
RUNAWAY = 7
TRAFFIC = 8
PRICE_BASIS = 9
NO_CHECKPOINT = 10
CEILING = 11
STALLED = 13
SLOW_PROGRESS = 14
BURN_RULES = 3
# In `facts`, bit r says that fact r holds, and bit r + UNSEEN that nobody looked at this tick: it stays as it is.
UNSEEN = 32

# Kinds of changes.
OPENED = 1
HELD = 2  # still open, with new figures
RAISED = 3  # still open, and more urgent than before
RECOVERED = 4  # cleared: the condition is over
ENDED = 5  # cleared: the job is over
OUTRANKED = 6  # cleared: a more urgent rule takes precedence
SWITCHED_OFF = 7  # cleared: the rule does not apply to the job any more

# How urgent an alert of a burn rule is, by what it costs above the expected rate: the places in URGENCY.
DIGEST_LEVEL = 0
TICKET_LEVEL = 1
PAGE_LEVEL = 2

# No instant; sums with it cannot overflow int64.
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
        ("opening_1_ms", np.int64),  # when it last opened, also while it stays open as one that flaps
        ("opening_2_ms", np.int64),  # and the two times before
        ("opening_3_ms", np.int64),
        ("flaps", np.int64),  # it stays open until its rule has not held for QUIET_MS
        ("quiet_ms", np.int64),  # since when it has not, while it stays open; BEGINNING_MS: it holds
        # Of runaway length: from then on it may open for the same reason again. Of a burn rule whose alert ended with an
        # attempt: the same burn is known if a next attempt has it before.
        ("again_ms", np.int64),
        ("level", np.int64),  # of a burn rule: the most urgent that it was in the episode
        (
            "ticket_ms",
            np.int64,
        ),  # when it became a ticket, or more, that began as less; BEGINNING_MS: it did not
        ("page_ms", np.int64),  # when it became a page that began as less; BEGINNING_MS: it did not
        (
            "known_nano",
            np.float64,
        ),  # of a burn rule: per hour above the expected rate, as of its last ticket or page
        ("reported_ms", np.int64),  # the last `held_ms` returned, within this call only
    ],
    align=True,
)
#: The instants of an episode, which are none at first.
NO_INSTANTS: Final = (
    "started_ms",
    "fired_ms",
    "cleared_ms",
    "held_ms",
    "opening_1_ms",
    "opening_2_ms",
    "opening_3_ms",
    "quiet_ms",
    "again_ms",
    "ticket_ms",
    "page_ms",
    "reported_ms",
)
CHANGE = np.dtype(
    [("job", np.int64), ("rule", np.int64), ("kind", np.int64), ("at_ms", np.int64)], align=True
)


class RuleLimits(NamedTuple):
    """Thresholds by profile, the settings of a set of jobs: [profile] or, of burn rules, [profile, rule].

    The windows of a burn rule ([rule]) are positions in the figures' last axis.
    """

    long_window: I64
    short_window: I64
    long_ratio: F64
    short_ratio: F64
    clear_ratio: F64
    extra_nano: F64
    ticket_nano: F64  # per hour above the expected rate, from which on somebody is notified
    page_nano: F64  # likewise, from which on it is a page
    least_ratio: F64  # below which no burn rule opens that applies
    enabled: I64  # bit r: rule r applies
    pages: I64  # bit r: rule r is a page by the settings; a burn rule may also be one by its dollars
    longest_ms: I64  # of runaway length, since the first paid instant
    grace_ms: I64  # after the deadline
    traffic_nano: F64  # in an hour
    traffic_ratio: F64  # to what accrues with time
    traffic_start_times: F64  # as much as in the first paid hour
    traffic_repeated_ratio: F64  # likewise, of traffic that comes again and again
    traffic_dear_nano: F64  # in an hour, whenever it is
    idle_ratio: F64  # productive share of sampled GPU-time; read by no kernel
    silent_ms: I64  # so long after its last activity a job is silent; read by no kernel


class EpisodeArrays(NamedTuple):
    """The figures as the kernels read them: [tick, job], by window [tick, job, window], of a job [job]."""

    now_rate: F64  # nano-dollars per hour
    expected_rate: F64
    cost_nano: F64
    expected_nano: F64
    traffic_nano: F64  # the part of the cost that does not accrue with time
    basis_nano: F64  # the part that another purchase than before adds
    elapsed_ms: I64
    paid_whole: Flags
    ended: Flags
    undecided: Flags
    paid_now: Flags
    since_paid_ms: I64  # since the first paid instant
    facts: I64
    steady_nano: F64  # of a job on GPUs: the least traffic of the last three hours, each by itself
    repeated_nano: (
        F64  # likewise, if it comes in bursts; or half of the least of the last three spans of two hours
    )
    recurring_nano: F64  # likewise: the lesser traffic of the last two spans of two hours
    start_nano: F64  # the traffic of the first paid hour and before
    deadline_ms: I64
    profile: I64


_BY_WINDOW = ("cost_nano", "expected_nano", "traffic_nano", "basis_nano", "elapsed_ms", "paid_whole")
#: Figures that are the same at all ticks.
BY_JOB: Final = ("start_nano", "deadline_ms", "profile")
_FLOATS = (
    "now_rate", "expected_rate", "cost_nano", "expected_nano", "traffic_nano", "basis_nano", "steady_nano", "repeated_nano",
    "recurring_nano", "start_nano",
)  # fmt: skip
_DTYPES = dict.fromkeys(_FLOATS, np.float64) | dict.fromkeys(
    ("paid_whole", "ended", "undecided", "paid_now"), np.bool_
)


def as_arrays(
    figures: EpisodeArrays, ticks: int, jobs: int, windows: int, profiles: int = 1
) -> EpisodeArrays:
    """The figures in the layout that the kernels were compiled for; they read without bounds checks.

    Raises:
        ValueError: An array has another shape, or a profile is none of so many.
    """
    arrays = EpisodeArrays._make(
        exact(array, _DTYPES.get(name, np.int64))
        for name, array in zip(EpisodeArrays._fields, figures, strict=True)
    )
    for name, array in zip(EpisodeArrays._fields, arrays, strict=True):
        expected = (
            (jobs,) if name in BY_JOB else (ticks, jobs, windows) if name in _BY_WINDOW else (ticks, jobs)
        )
        if array.shape != expected:
            raise ValueError(f"{name}: got the shape {array.shape}, expected {expected}")
    if jobs and not 0 <= int(arrays.profile.min()) <= int(arrays.profile.max()) < profiles:
        raise ValueError(f"profile: a position beyond {profiles}")
    return arrays


def no_episodes(jobs: int, rules: int = SLOW_PROGRESS + 1) -> Records:
    """Empty episodes [job, rule]."""
    episodes = np.zeros((jobs, rules), EPISODE)
    for name in NO_INSTANTS:
        episodes[name] = BEGINNING_MS
    return episodes
