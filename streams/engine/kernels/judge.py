"""Evaluates the alert rules over a range of ticks: figures and episodes in, alert changes out.

It must skip jobs without an open episode that no tick could open, as nearly all jobs are at any time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from schemas.durations import BEGINNING_MS, HOUR_MS
from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import I32, I64, Records, as_flag, as_int64, equal_lengths, exact
from streams.engine.kernels.burn import TRAFFIC_WINDOW, WINDOWS_MS
from streams.engine.kernels.conditions import (
    LEAST_EXPECTED_NANO,
    accrued,
    extra_rate,
    holds_at,
    is_over,
    may_open,
    moves,
    reaches,
    reaches_ratios,
    runs_away,
)
from streams.engine.kernels.episode import (
    BURN_RULES,
    CHANGE,
    ENDED,
    EPISODE,
    HELD,
    OPENED,
    OUTRANKED,
    PAGE_LEVEL,
    PRICE_BASIS,
    RAISED,
    RECOVERED,
    RUNAWAY,
    SILENT,
    SWITCHED_OFF,
    TICK_MS,
    TICKET_LEVEL,
    TRAFFIC,
    EpisodeArrays,
    RuleLimits,
)
from streams.engine.kernels.episode_steps import (
    close_episode,
    count_opening,
    open_episode,
    stands,
    stays_open,
    was_notified,
)
from streams.engine.kernels.precedence import is_suppressed, level_of, remember, yields

#: The window of the figures of facts other than traffic.
FACT_WINDOW = 0
_ROOM = 65_536  # changes that one kernel call may return


@helper
def _any_burn_opens(rules: int, tick: int, job: int, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether any of the first so many burn rules opens, unless another rule takes precedence."""
    for rule in range(rules):
        if (
            reaches_ratios(tick, job, rule, limits, figures)
            and limits.enabled[figures.profile[job]] >> rule & 1
            and may_open(tick, job, rule, limits, figures)
        ):
            return True
    return False


@helper
def _could_open(tick: int, job: int, times_ms: I64, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether any rule opens, unless another takes precedence."""
    enabled = limits.enabled[figures.profile[job]]
    if _any_burn_opens(as_int64(BURN_RULES), tick, job, limits, figures):
        return True
    runs_long = enabled >> RUNAWAY & 1 and runs_away(tick, job, as_flag(False), times_ms, limits, figures)
    if runs_long or figures.facts[tick, job] & enabled:
        return True
    return bool(enabled >> TRAFFIC & 1 and moves(tick, job, as_flag(False), limits, figures))


@kernel
def _find(
    times_ms: I64, limits: RuleLimits, figures: EpisodeArrays, row: I32, episodes: Records, found: I32
) -> int:
    """Fill `found` with the jobs to judge, in order; return their number. `row`: index in `episodes`, -1 without one."""
    ticks, jobs = figures.ended.shape
    for job in range(jobs):
        found[job] = 0
        if row[job] >= 0:
            for rule in range(episodes.shape[1]):
                found[job] |= np.int32(episodes[row[job], rule]["open"])
    for tick in range(ticks):
        for job in range(jobs):
            if found[job] == 0 and _could_open(tick, job, times_ms, limits, figures):
                found[job] = 1
    count = 0
    for job in range(jobs):
        if found[job] != 0:
            found[count] = job
            count += 1
    return count


@helper
def _add_change(
    rule: int, kind: int, at_ms: int, job: int, episodes: Records, out: Records, shown: Records, count: int
) -> int:
    """Add a change, and the episode as it is now."""
    episodes[rule]["reported_ms"] = episodes[rule]["held_ms"]
    out[count]["job"] = job
    out[count]["rule"] = rule
    out[count]["kind"] = kind
    out[count]["at_ms"] = at_ms
    shown[count] = episodes[rule]
    return count + 1


@helper
def _burn_is_over(
    rule: int,
    holds: bool,
    at_ms: int,
    tick: int,
    job: int,
    limits: RuleLimits,
    figures: EpisodeArrays,
    episodes: Records,
) -> bool:
    """Whether an open alert of a burn rule clears by its ratios."""
    episode = episodes[rule]
    if episode["quiet_ms"] != BEGINNING_MS:
        if holds and may_open(tick, job, rule, limits, figures):
            count_opening(rule, at_ms, episodes)
            return False
        if _any_burn_opens(rule, tick, job, limits, figures):
            episode["quiet_ms"] = (
                at_ms  # a faster burn goes on, which would open an alert if this one did not stand
            )
        return not stays_open(at_ms, episode)
    short = limits.short_window[rule]
    cost, expected = accrued(tick, job, short, figures), figures.expected_nano[tick, job, short]
    if figures.undecided[tick, job] and expected < LEAST_EXPECTED_NANO:
        return False  # a next attempt may follow
    clear_ratio = limits.clear_ratio[figures.profile[job], rule]
    return not reaches(cost, expected, clear_ratio) and not stays_open(at_ms, episode)


@helper
def _raises(level: int, extra_nano: float, at_ms: int, episode: Records) -> bool:
    """Whether an open alert of a burn rule is more urgent than it was in the episode so far; it then fires anew."""
    if level <= episode["level"] or episode["quiet_ms"] != BEGINNING_MS:
        return False
    if at_ms > episode["started_ms"]:
        if episode["level"] < TICKET_LEVEL:
            episode["ticket_ms"] = at_ms
        if level == PAGE_LEVEL:
            episode["page_ms"] = at_ms
    episode["level"] = level
    episode["fired_ms"] = at_ms
    episode["known_nano"] = extra_nano
    return True


@helper
def _judge_burn(
    rule: int,
    silent: bool,
    off: bool,
    at_ms: int,
    tick: int,
    job: int,
    limits: RuleLimits,
    figures: EpisodeArrays,
    episodes: Records,
) -> int:
    """Step one burn rule; return the kind of change, 0 for none."""
    episode = episodes[rule]
    is_open = episode["open"] != 0
    ended = is_over(tick, job, figures)
    if not is_open and (silent or ended or off):
        return 0
    long, short = limits.long_window[rule], limits.short_window[rule]
    short_cost, short_expected = accrued(tick, job, short, figures), figures.expected_nano[tick, job, short]
    holds = reaches_ratios(tick, job, rule, limits, figures)
    kind = 0
    if not is_open:
        if not (holds and may_open(tick, job, rule, limits, figures)):
            return 0
        open_episode(rule, at_ms, episodes)
        kind = OPENED
    elif ended:
        kind = ENDED
    elif off:
        kind = SWITCHED_OFF
    elif silent:
        kind = OUTRANKED
    elif _burn_is_over(rule, holds, at_ms, tick, job, limits, figures, episodes):
        kind = RECOVERED
    if holds and episode["quiet_ms"] == BEGINNING_MS:
        episode["held_ms"] = at_ms
        episode["cost_nano"] = accrued(tick, job, long, figures)
        episode["expected_nano"] = figures.expected_nano[tick, job, long]
        episode["elapsed_ms"] = figures.elapsed_ms[tick, job, long]
        episode["short_ratio"] = short_cost / short_expected
    if kind > RAISED:
        close_episode(at_ms, episode)
        remember(rule, kind, at_ms, episodes)
        return kind
    level = level_of(rule, at_ms, tick, job, limits, figures, episodes)
    raises = _raises(level, extra_rate(tick, job, figures), at_ms, episode)
    return RAISED if raises and kind == 0 else kind


@helper
def _keep_figures(rule: int, tick: int, job: int, figures: EpisodeArrays, episode: Records) -> None:
    """Keep what the job costs while a fact holds; the first two rules have no figures."""
    if rule <= SILENT:
        return
    window = TRAFFIC_WINDOW if rule == TRAFFIC else FACT_WINDOW
    episode["elapsed_ms"] = figures.elapsed_ms[tick, job, window]
    episode["cost_nano"] = figures.cost_nano[tick, job, window]
    episode["expected_nano"] = figures.expected_nano[tick, job, window]
    if rule == PRICE_BASIS:  # at its first ticks a window says little of the new price
        share = WINDOWS_MS[FACT_WINDOW] / HOUR_MS
        episode["elapsed_ms"] = WINDOWS_MS[FACT_WINDOW]
        episode["cost_nano"] = figures.now_rate[tick, job] * share
        episode["expected_nano"] = figures.expected_rate[tick, job] * share
    if rule == TRAFFIC:
        traffic_nano = figures.traffic_nano[tick, job, TRAFFIC_WINDOW]
        episode["elapsed_ms"] = HOUR_MS
        episode["expected_nano"] = max(episode["cost_nano"] - traffic_nano, 0.0)
        episode["cost_nano"] = traffic_nano


@helper
def _judge_fact(
    rule: int,
    holds: bool,
    off: bool,
    at_ms: int,
    tick: int,
    job: int,
    figures: EpisodeArrays,
    episodes: Records,
) -> int:
    """Step a rule that holds or does not; return the kind of change, 0 for none."""
    episode = episodes[rule]
    if holds and not off:
        opens = episode["open"] == 0
        if opens:
            open_episode(rule, at_ms, episodes)
            if rule == RUNAWAY:
                episode["again_ms"] = at_ms + figures.since_paid_ms[tick, job]
        elif episode["quiet_ms"] != BEGINNING_MS:
            count_opening(rule, at_ms, episodes)
        episode["held_ms"] = at_ms
        _keep_figures(rule, tick, job, figures, episode)
        return OPENED if opens else 0
    if episode["open"] != 0:
        if episode["quiet_ms"] == BEGINNING_MS:
            # A job that has left all windows is not judged, but its condition held until now.
            episode["held_ms"] = max(episode["held_ms"], at_ms - TICK_MS)
        if not off and not is_over(tick, job, figures) and stays_open(at_ms, episode):
            return 0
        close_episode(at_ms, episode)
        if holds:
            episode["again_ms"] = BEGINNING_MS  # who switches the rule on again wants to hear of it
        return SWITCHED_OFF if holds else RECOVERED
    return 0


@helper
def _judge_job(
    job: int,
    times_ms: I64,
    limits: RuleLimits,
    figures: EpisodeArrays,
    episodes: Records,
    out: Records,
    shown: Records,
    count: int,
) -> int:
    """Step all rules of one job through the ticks; return the number of changes so far."""
    enabled, pages = limits.enabled[figures.profile[job]], limits.pages[figures.profile[job]]
    for rule in range(episodes.size):
        episodes[rule]["reported_ms"] = episodes[rule]["held_ms"]
    for tick in range(times_ms.size):
        at_ms = times_ms[tick]
        for rule in range(episodes.size):
            off = enabled >> rule & 1 == 0
            if rule >= BURN_RULES:
                holds = holds_at(rule, tick, job, stands(episodes[rule]), times_ms, limits, figures)
                holds = holds and not yields(rule, at_ms, pages, episodes)
                if rule == RUNAWAY:
                    holds = holds and not was_notified(tick, job, times_ms, limits, figures, episodes[rule])
                kind = _judge_fact(rule, holds, off, at_ms, tick, job, figures, episodes)
            else:
                silent = is_suppressed(rule, times_ms, tick, job, limits, figures, episodes)
                kind = _judge_burn(rule, silent, off, at_ms, tick, job, limits, figures, episodes)
            if kind != 0:
                count = _add_change(rule, kind, at_ms, job, episodes, out, shown, count)
    for rule in range(BURN_RULES):
        if episodes[rule]["open"] != 0 and episodes[rule]["held_ms"] > episodes[rule]["reported_ms"]:
            count = _add_change(
                rule, as_int64(HELD), episodes[rule]["held_ms"], job, episodes, out, shown, count
            )
    return count


@kernel
def _holding(
    tick: int, job: int, times_ms: I64, limits: RuleLimits, figures: EpisodeArrays, episodes: Records
) -> int:
    """The rules whose condition holds at a tick (bit r: rule r), whether or not they apply or others come first."""
    found = as_int64(0)
    for rule in range(episodes.size):
        if rule < BURN_RULES:
            holds = reaches_ratios(tick, job, rule, limits, figures) and may_open(
                tick, job, rule, limits, figures
            )
        else:
            holds = holds_at(rule, tick, job, stands(episodes[rule]), times_ms, limits, figures)
            holds = holds and not yields(rule, times_ms[tick], limits.pages[figures.profile[job]], episodes)
            if rule == RUNAWAY:
                holds = holds and not was_notified(tick, job, times_ms, limits, figures, episodes[rule])
        if holds:
            found |= as_int64(1) << rule
    return found


@kernel
def _step(
    first: int,
    found: I32,
    place: I32,
    times_ms: I64,
    limits: RuleLimits,
    figures: EpisodeArrays,
    episodes: Records,
    out: Records,
    shown: Records,
) -> tuple[int, int]:
    """Judge found[first:] while there is room for a job's changes; return the next to judge, and the changes."""
    count = as_int64(0)
    while first < found.size and out.size - count >= episodes.shape[1] * (times_ms.size + 1):
        line = episodes[place[first]]
        count = _judge_job(as_int64(found[first]), times_ms, limits, figures, line, out, shown, count)
        first += 1
    return first, count


def find_jobs(
    times_ms: ArrayLike, limits: RuleLimits, figures: EpisodeArrays, row: ArrayLike, episodes: Records
) -> I32:
    """The jobs (positions, int32) with an open episode, or that could open one in these ticks.

    `row`: each job's index in `episodes`, -1 without one.

    Raises:
        ValueError: The arrays do not fit each other.
    """
    ticks, jobs = exact(times_ms, np.int64), figures.ended.shape[1]
    places = exact(row, np.int32)
    if len(ticks) != figures.ended.shape[0]:
        raise ValueError(f"{len(ticks)} ticks do not fit the figures of {figures.ended.shape[0]}")
    if len(places) != jobs or (jobs and int(places.max()) >= len(episodes)):
        raise ValueError(f"{len(places)} places among {len(episodes)} episodes for {jobs} jobs")
    found = np.empty(jobs, np.int32)
    return found[: _find(ticks, limits, figures, places, episodes, found)]


def judge_jobs(
    times_ms: ArrayLike, limits: RuleLimits, figures: EpisodeArrays, found: I32, place: I32, episodes: Records
) -> tuple[Records, Records]:
    """Step the jobs `found` through the ticks; return the changes, and the episode of each at that time.

    `place`: the line of each job in `episodes`, which are updated. Changes of one job and rule are in order.

    Raises:
        ValueError: The ticks do not fit the figures, or a position is out of range.
    """
    ticks, jobs = exact(times_ms, np.int64), exact(found, np.int32)
    lines = exact(place, np.int32)
    if len(ticks) != figures.ended.shape[0]:
        raise ValueError(f"{len(ticks)} ticks do not fit the figures of {figures.ended.shape[0]}")
    if equal_lengths(jobs, lines):
        _check_range(jobs, figures.ended.shape[1])
        _check_range(lines, len(episodes))
    most = episodes.shape[1] * (len(ticks) + 1)
    out = np.empty(max(most, min(most * len(jobs), _ROOM)), CHANGE)
    shown = np.empty(len(out), EPISODE)
    calls: list[tuple[Records, Records]] = []
    first = 0
    while first < len(jobs):
        first, count = _step(first, jobs, lines, ticks, limits, figures, episodes, out, shown)
        calls.append((out[:count].copy(), shown[:count].copy()))
    if not calls:
        return out[:0], shown[:0]
    if len(calls) == 1:
        return calls[0]
    changes, episodes_then = zip(*calls, strict=True)
    return np.concatenate(changes), np.concatenate(episodes_then)


def holding(
    tick: int, job: int, times_ms: ArrayLike, limits: RuleLimits, figures: EpisodeArrays, episodes: Records
) -> int:
    """The rules (bit r: rule r) whose condition holds for a job at a tick, whether or not they apply or others come first.

    `episodes` ([rule]) are those of the job before or after the tick.

    Raises:
        ValueError: A position is out of range.
    """
    ticks = exact(times_ms, np.int64)
    if not (0 <= tick < figures.ended.shape[0] == len(ticks) and 0 <= job < figures.ended.shape[1]):
        raise ValueError(f"tick {tick} or job {job} beyond the figures of {figures.ended.shape}")
    return int(_holding(tick, job, ticks, limits, figures, episodes))


def notified_until_ms(
    job: int, times_ms: ArrayLike, limits: RuleLimits, figures: EpisodeArrays, episodes: Records
) -> int:
    """Until when runaway length tells no more of a job that it has named, as of the first tick; 0: it may tell.

    `episodes` ([rule]) are those of the job before or after the tick.
    """
    episode = episodes[RUNAWAY]
    ticks = exact(times_ms, np.int64)
    return int(episode["again_ms"]) if was_notified(0, job, ticks, limits, figures, episode) else 0


def _check_range(positions: I32, size: int) -> None:
    if not 0 <= int(positions.min()) <= int(positions.max()) < size:
        raise ValueError(f"a position beyond {size}")
