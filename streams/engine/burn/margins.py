"""How far each rule about a job is from firing, by the figures and the kernel that judge it.

Nothing is judged anew: conditions are asked of the kernel's own helpers, values of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.arrays import Records
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import (
    BURN_RULES,
    IDLE_GPUS,
    PAGE_LEVEL,
    TICK_MS,
    EpisodeArrays,
    as_arrays,
)
from streams.engine.kernels.judge import holding, notified_until_ms
from streams.engine.rules.idle_check import IdleGpus
from streams.engine.rules.job_view import JobAt, TickFigures
from streams.engine.rules.profiles import Profile, Profiles
from streams.engine.rules.registry import JOB_RULES, NAMES
from streams.engine.rules.rule import PAGE, Margin
from streams.engine.rules.turns import TURNS, turn_of
from streams.engine.windows.curves import CurveBook


class RuleMargins(NamedTuple):
    """One rule of a job at a tick: whether its condition holds, whether it applies and fires, and how far it is from both.

    `flaps`: it opened so often that it fires until its condition has not held for an hour.
    """

    rule: str
    holds: bool
    enabled: bool
    fires: bool
    flaps: bool
    margins: tuple[Margin, ...]


def job_margins(
    curves: CurveBook, coverage: Coverage, profiles: Profiles, profile: int, episodes: Records, at: JobAt
) -> list[RuleMargins]:
    """Return the margins of every rule about a job with a curve, in the order of evaluation.

    `episodes` ([rule]) are those of the job at the tick; idle GPUs are as of the job's last turn.
    """
    assert at.job is not None  # the caller knows the job
    job_id, ticks = at.job.id, np.array([at.at_ms], np.int64)
    place = curves.job_ids.index(job_id)
    figures = curves.figures(ticks)
    turn_ms = (at.at_ms // TICK_MS - (at.at_ms // TICK_MS - turn_of(job_id)) % TURNS) * TICK_MS
    at = replace(at, idle=IdleGpus.use_of(curves, coverage, at.job, turn_ms, profiles[profile]))
    if is_met(tuple(JOB_RULES[IDLE_GPUS].margins(at))):
        figures.facts[0, place] |= np.int64(1) << IDLE_GPUS
    arrays = EpisodeArrays(*(getattr(figures, name) for name in EpisodeArrays._fields))
    arrays = as_arrays(arrays, 1, len(curves), len(WINDOWS_MS), len(profiles))
    bits = holding(0, place, ticks, profiles.limits, arrays, episodes)
    holds = frozenset(name for number, name in enumerate(NAMES) if bits >> number & 1)
    fires = frozenset(name for number, name in enumerate(NAMES) if episodes[number]["open"])
    settings: Profile = profiles[profile]
    pages = frozenset(
        name
        for number, name in enumerate(NAMES)
        if settings.severity(number) == PAGE
        or (number < BURN_RULES and episodes[number]["firings"] and episodes[number]["level"] == PAGE_LEVEL)
    )
    cleared_ms = {name: int(episodes[number]["cleared_ms"]) for number, name in enumerate(NAMES)}
    notified_ms = notified_until_ms(place, ticks, profiles.limits, arrays, episodes)
    at = replace(at, figures=_figures(arrays, place, notified_ms, holds, fires, pages, cleared_ms))
    return [
        RuleMargins(
            rule.name,
            rule.name in holds,
            settings.rules[number].enabled,
            rule.name in fires,
            bool(episodes[number]["flaps"]),
            tuple(rule.margins(at)),
        )
        for number, rule in enumerate(JOB_RULES)
    ]


def _figures(
    arrays: EpisodeArrays,
    job: int,
    notified_ms: int,
    holds: frozenset[str],
    fires: frozenset[str],
    pages: frozenset[str],
    cleared_ms: Mapping[str, int],
) -> TickFigures:
    def by_window(name: str) -> dict[int, float]:
        return dict(zip(WINDOWS_MS, getattr(arrays, name)[0, job].tolist(), strict=True))

    return TickFigures(
        cost_nano=by_window("cost_nano"),
        expected_nano=by_window("expected_nano"),
        traffic_nano=by_window("traffic_nano"),
        paid_whole={window_ms: bool(whole) for window_ms, whole in by_window("paid_whole").items()},
        paid_now=bool(arrays.paid_now[0, job]),
        is_over=bool(arrays.ended[0, job] and not arrays.undecided[0, job]),
        is_undecided=bool(arrays.undecided[0, job]),
        notified_until_ms=notified_ms,
        since_paid_ms=int(arrays.since_paid_ms[0, job]),
        steady_nano=float(arrays.steady_nano[0, job]),
        repeated_nano=float(arrays.repeated_nano[0, job]),
        recurring_nano=float(arrays.recurring_nano[0, job]),
        start_nano=float(arrays.start_nano[job]),
        holds=holds,
        fires=fires,
        pages=pages,
        cleared_ms=cleared_ms,
    )


def is_met(margins: tuple[Margin, ...]) -> bool:
    """Return whether all conditions of some way hold, by their shares."""
    ways: dict[int, bool] = {}
    for each in margins:
        ways[each.way] = ways.get(each.way, True) and each.share is not None and each.share >= 1
    return any(ways.values())
