"""Opens and closes the episodes of rules, and keeps those open that flap. When a rule holds, `judge` decides."""

from __future__ import annotations

from schemas.durations import BEGINNING_MS
from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import I64, Records
from streams.engine.kernels.episode import (
    BURN_RULES,
    IDLE_GPUS,
    SLOW_PROGRESS,
    STALLED,
    EpisodeArrays,
    RuleLimits,
)

#: The same rule and subject within this time of clearing, the end included, is the same episode.
REOPENS_MS = 600_000
#: A rule flaps for a job if this opening is the fourth in so long, those of rules that tell of the same counted as well: the alert then
#: stays open until it was quiet for so long.
FLAPS_WITHIN_MS = 10_800_000
QUIET_MS = 3_600_000
_MOST_OPENINGS = 3


@helper
def _same_thing(rule: int) -> int:
    """What a rule tells of, as the number of the first rule that does: what a job burns, or that it stands still."""
    if rule < BURN_RULES:
        return 0
    return IDLE_GPUS if rule in (STALLED, SLOW_PROGRESS) else rule


@helper
def count_opening(rule: int, at_ms: int, episodes: Records) -> None:
    """Count an opening, and note whether rules of the same thing had three before it within a short time."""
    before = 0
    for other in range(episodes.size):
        if _same_thing(other) == _same_thing(rule):
            before += at_ms < episodes[other]["opening_1_ms"] + FLAPS_WITHIN_MS
            before += at_ms < episodes[other]["opening_2_ms"] + FLAPS_WITHIN_MS
            before += at_ms < episodes[other]["opening_3_ms"] + FLAPS_WITHIN_MS
    episode = episodes[rule]
    episode["flaps"] = 1 if before >= _MOST_OPENINGS else 0
    episode["opening_3_ms"] = episode["opening_2_ms"]
    episode["opening_2_ms"] = episode["opening_1_ms"]
    episode["opening_1_ms"] = at_ms
    episode["quiet_ms"] = BEGINNING_MS


@helper
def stays_open(at_ms: int, episode: Records) -> bool:
    """Whether an alert that flaps, and whose condition is over, stays open at this tick."""
    if episode["flaps"] == 0:
        return False
    if episode["quiet_ms"] == BEGINNING_MS:
        episode["quiet_ms"] = at_ms
    return bool(at_ms < episode["quiet_ms"] + QUIET_MS)


@helper
def stands(episode: Records) -> bool:
    """Whether it is open because its condition holds, not only because it flaps."""
    return bool(episode["open"] != 0 and episode["quiet_ms"] == BEGINNING_MS)


@helper
def open_episode(rule: int, at_ms: int, episodes: Records) -> None:
    """Open an episode, or reopen one that cleared recently."""
    episode = episodes[rule]
    if episode["firings"] == 0 or at_ms > episode["cleared_ms"] + REOPENS_MS:
        episode["started_ms"] = at_ms
        episode["firings"] = 0
        episode["level"] = 0
        episode["ticket_ms"] = BEGINNING_MS
        episode["page_ms"] = BEGINNING_MS
    episode["open"] = 1
    episode["fired_ms"] = at_ms
    episode["held_ms"] = at_ms
    episode["firings"] += 1
    count_opening(rule, at_ms, episodes)


@helper
def close_episode(at_ms: int, episode: Records) -> None:
    """Close an open episode."""
    episode["open"] = 0
    episode["cleared_ms"] = at_ms
    episode["quiet_ms"] = BEGINNING_MS


@helper
def was_notified(
    tick: int, job: int, times_ms: I64, limits: RuleLimits, figures: EpisodeArrays, episode: Records
) -> bool:
    """Whether runaway length named the job, and does not again yet: it has become twice as old, or late, since.

    A job of many attempts would be an alert at each of them.
    """
    at_ms = times_ms[tick]
    late_ms = figures.deadline_ms[job] + limits.grace_ms[figures.profile[job]]
    return bool(
        episode["open"] == 0
        and at_ms < episode["again_ms"]
        and at_ms > episode["cleared_ms"] + REOPENS_MS
        and not episode["fired_ms"] < late_ms <= at_ms
    )
