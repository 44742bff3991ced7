"""Jobs at ticks, from a few words: ratios per window, and what else a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.durations import NEVER_MS
from schemas.events import ControlEvent
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.judge import Judge
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import SILENT as SILENT_FACT
from streams.engine.kernels.episode import UNPRICED as UNPRICED_FACT
from streams.engine.rules.profiles import Profiles
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.windows.figures import WindowFigures

START_MS = 1_772_334_000_000  # 2026-03-01 03:00:00 UTC, a whole 10 s
TICK_MS = 10_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
USD = 10**9


@dataclass(frozen=True)
class At:
    """A job at a tick: the ratio of each window; expected are 10 dollars in each, so 1.1 is a dollar too much."""

    m5: float = 1.0
    m15: float = 1.0
    h1: float = 1.0
    h6: float = 1.0
    expected_usd: float = 10.0
    paid_whole: tuple[bool, bool, bool, bool] = (True, True, True, True)
    ended: bool = False
    undecided: bool = False
    facts: tuple[int, ...] = ()
    traffic_usd: float = 0.0
    basis_usd: float = 0.0
    again_usd: float = 0.0
    start_usd: float = 0.0
    paid_now: bool = True
    since_paid_ms: int = HOUR_MS
    above_usd_per_hour: float = 0.0  # what it costs now above the expected rate


USUAL = At()
FAST = At(m5=6, m15=2.5)
SUSTAINED = At(m5=2.1, m15=2.1, h1=2.1)
DRIFT = At(m5=1.4, m15=1.4, h1=1.4, h6=1.4)
ALL = At(m5=9, m15=9, h1=9, h6=9)
UNPRICED = At(facts=(UNPRICED_FACT,))
SILENT = At(facts=(SILENT_FACT,))


def figures(rows: Sequence[Sequence[At]]) -> WindowFigures:
    """The figures of [tick][job]."""
    made = WindowFigures.empty(len(rows), len(rows[0]))
    made.expected_rate[:] = 0
    made.ended_ms[:] = made.profile[:] = 0
    made.deadline_ms[:] = NEVER_MS
    made.elapsed_ms[:] = WINDOWS_MS
    for tick, row in enumerate(rows):
        for job, at in enumerate(row):
            made.expected_nano[tick, job] = at.expected_usd * USD
            made.cost_nano[tick, job] = np.array((at.m5, at.m15, at.h1, at.h6)) * at.expected_usd * USD
            made.paid_whole[tick, job] = at.paid_whole
            made.ended[tick, job] = at.ended
            made.undecided[tick, job] = at.undecided
            made.facts[tick, job] = sum(1 << fact for fact in at.facts)
            made.traffic_nano[tick, job] = at.traffic_usd * USD  # in each window
            made.basis_nano[tick, job] = at.basis_usd * USD
            made.steady_nano[tick, job] = 0
            made.repeated_nano[tick, job] = made.recurring_nano[tick, job] = at.again_usd * USD
            made.start_nano[job] = at.start_usd * USD
            made.paid_now[tick, job] = at.paid_now
            made.now_rate[tick, job] = at.above_usd_per_hour * USD
            made.since_paid_ms[tick, job] = at.since_paid_ms
    return made


#: `unpriced` is off by default.
UNPRICED_ON = ControlEvent("t", "on", 0, "rule", "z", {"rule": "unpriced", "enabled": True})
ALL_ON = Controls.from_events([UNPRICED_ON])
PROFILES = Profiles()


def judged(
    judge: Judge, ticks: Sequence[int], jobs: Sequence[str], made: WindowFigures, of: Any, controls: Controls
) -> list[Alert]:
    """What a judge tells where the rules of every job are those of the controls."""
    made.profile[:] = PROFILES.number(controls.profile_for(AlertDimensions("any")))
    return judge.judge(ticks, jobs, made, of, controls, PROFILES)


class Scene:
    """One judge and its clock; every call says what each job is for so many ticks."""

    def __init__(self, controls: Controls = ALL_ON, start_ms: int = START_MS) -> None:
        self.judge = Judge()
        self.now_ms = start_ms - TICK_MS  # the last tick that was judged
        self.controls = controls
        self.dimensions: Mapping[str, AlertDimensions] = {}

    def see(self, *stretches: tuple[int, At], job: str = "j") -> list[Alert]:
        """Judge a job for stretches of (ms, what it is), each a tick at least, in one call."""
        rows = [at for ms, at in stretches for _ in range(max(1, ms // TICK_MS))]
        ticks = [self.now_ms + TICK_MS * (k + 1) for k in range(len(rows))]
        self.now_ms = ticks[-1]
        return judged(self.judge, ticks, (job,), figures([[at] for at in rows]), self.of, self.controls)

    def changes(self, *stretches: tuple[int, At], job: str = "j") -> list[tuple[str, str, int]]:
        """(rule, status, seconds since the start) of each change of status."""
        return [
            (alert.rule, alert.status, (alert.changed_ms - START_MS) // 1000)
            for alert in self.see(*stretches, job=job)
            if is_change(alert)
        ]

    def of(self, job_id: str) -> AlertDimensions:
        return self.dimensions.get(job_id, AlertDimensions(job_id))
