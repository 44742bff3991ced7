"""`spinning`: all GPUs of a job are busy and do nothing, after they had worked: a collective waits for a rank that never comes.

What they did minute by minute is handed in. A kernel that waits keeps its GPU at 100 %, so utilisation does not show it; the activity of
multiprocessors and tensor cores does, and the power.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import gpu_use_evidence
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, short_instant, unheeded
from streams.engine.rules.rule import (
    JOB,
    LEAST_WASTE,
    TICKET,
    LedgerRule,
    Margin,
    Threshold,
    from_threshold_on,
    page_from,
    severity_of,
    unless_zero,
)

NAME: Final = "spinning"
#: Samples come so late.
LAG_MINUTES: Final = 2
#: What the GPUs did before is looked at for so many minutes.
LOOKBACK_MINUTES: Final = 360
#: In so many minutes they worked, so that it is known what that looks like.
WORKED_MINUTES: Final = 10
#: What is busy to this share and more in a minute works, or spins.
BUSY_RATIO: Final = 0.9
#: They spun for less than that time before, by this factor, in halves.
LONGEST_HALVES: Final = 3
#: So many minutes without it are the end of it.
OVER_MINUTES: Final = 5


class MinuteUse(NamedTuple):
    """What the GPUs of a job did in a minute: GPU-time in ms, sampled, and of it busy or active; the most power of one of them."""

    sampled_ms: int
    productive_ms: int
    sm_sampled_ms: int
    sm_ms: int
    tensor_sampled_ms: int
    tensor_ms: int
    power_w: int  # 0: not sampled

    @property
    def is_busy(self) -> bool:
        """Whether some kernel ran nearly all the time."""
        return self.productive_ms >= BUSY_RATIO * self.sampled_ms

    def is_inactive(self, of: Mapping[str, float]) -> bool:
        """Whether neither multiprocessors nor tensor cores, as far as they are sampled, do more than nothing."""
        return (
            self.sm_ms <= of["sm_ratio"] * self.sm_sampled_ms
            and self.tensor_ms <= of["tensor_ratio"] * self.tensor_sampled_ms
        )

    @property
    def has_activity(self) -> bool:
        """Whether multiprocessors or tensor cores are sampled."""
        return bool(self.sm_sampled_ms or self.tensor_sampled_ms)


class Spin(NamedTuple):
    """Since which minute GPUs are busy and do nothing, and the most power of one of them, before and now; 0: not sampled."""

    since_minute: int
    minutes: int
    power_before_w: int
    power_w: int
    gpus: int


class JobMinutesUse:
    """The minutes of a job by number."""

    def __init__(self, use: Mapping[int, MinuteUse], of: Mapping[str, float]) -> None:
        self._use = use
        self._of = of

    def goes_on(self, until: int, power_before_w: int) -> bool:
        """Whether they spun in one of the last minutes before `until`."""
        return any(self._spins(number, power_before_w) for number in range(until - OVER_MINUTES, until))

    def power_before_w(self, until: int) -> int | None:
        """The most power of a GPU in a usual minute of work; None: they did not work for long enough in the minutes before."""
        worked = [
            use.power_w
            for number in range(until - LOOKBACK_MINUTES, until)
            if (use := self._use.get(number)) is not None
            and 2 * use.productive_ms >= use.sampled_ms
            and not (use.has_activity and use.is_inactive(self._of))
        ]
        if len(worked) < WORKED_MINUTES:
            return None
        # Of GPUs without activity it is not known which of these minutes they worked: in the best half of them.
        return round(median(sorted(worked)[len(worked) // 2 :]))

    def spin(self, until: int) -> Spin | None:
        """How long they have been spinning before the minute `until`; None: they do not, or it is not known that they worked."""
        before_w = self.power_before_w(until)
        if before_w is None:
            return None
        begin = until
        while self._spins(begin - 1, before_w):
            begin -= 1
        if begin == until or until - begin < self._of["minutes"]:
            return None
        if 2 * (until - begin) < LONGEST_HALVES * self._longest(begin, before_w):
            return None
        newest = self._use[until - 1]
        return Spin(begin, until - begin, before_w, newest.power_w, round(newest.sampled_ms / MINUTE_MS))

    def _spins(self, number: int, power_before_w: int) -> bool:
        use = self._use.get(number)
        if use is None or not use.is_busy or not use.is_inactive(self._of):
            return False
        if use.power_w and power_before_w:
            return use.power_w <= self._of["power_ratio"] * power_before_w
        return use.has_activity

    def _longest(self, until: int, power_before_w: int) -> int:
        longest = run = 0
        for number in range(until - LOOKBACK_MINUTES, until):
            run = run + 1 if self._spins(number, power_before_w) else 0
            longest = max(longest, run)
        return longest


def finding(
    of: LedgerSettings, job: str, spin: Spin, paid_nano: int, at_ms: int, about: Mapping[str, str]
) -> LedgerFinding:
    """The sentence and the evidence of a job. `paid_nano`: per hour; `about`: its owner, team and project."""
    since_ms = spin.since_minute * MINUTE_MS

    def said(at_most: int) -> str:
        gpus = f"{spin.gpus:,} GPUs are" if spin.gpus > 1 else "its GPU is"
        power = (
            f", at {spin.power_w} W of {spin.power_before_w} W"
            if spin.power_w and spin.power_before_w
            else ""
        )
        return (
            f"{short(job, at_most)}: {gpus} busy and do nothing since {short_instant(since_ms, at_ms)} UTC{power}, {rounded_usd(paid_nano)}/h;"
            f" a collective waits: look at its ranks, restart it, else {unheeded(paid_nano, at_ms)}"
        )

    return LedgerFinding(
        NAME, severity_of(of.severity, paid_nano, of.thresholds), JOB, job, at_ms, sentence(said),
        gpu_use_evidence(job, "u.minute", "minute", since_ms - WORKED_MINUTES * MINUTE_MS, at_ms), 0.0, paid_nano, paid_nano * (at_ms - since_ms) // HOUR_MS,
        about["owner"], about["team"], about["project"], margins=(*margins(of.thresholds, spin, paid_nano),),
    )  # fmt: skip


def margins(of: Mapping[str, float], spin: Spin, paid_nano: int) -> list[Margin]:
    """How far a job is from an alert."""
    found = [
        from_threshold_on("minutes for which its GPUs are busy and do nothing", spin.minutes, of["minutes"])
    ]
    found += unless_zero("dollars per hour that it pays", paid_nano / NANO_PER_USD, of[LEAST_WASTE])
    return found


RULE: Final = LedgerRule(
    name=NAME,
    title="Spins",
    severity=TICKET,
    about="`job`",
    holds=(
        "for 12 min all of its GPUs are 90 % busy, while their multiprocessors (10 %) and tensor cores (2 %) "
        "do nothing and none draws half of the power that it drew before, as far as these are sampled. It "
        "worked for 10 min before, and costs $1/h or more. It ends after 5 min without"
    ),
    runbook="runbook.md#stands-still",
    yields_to=("stalled", "idle_gpus", "slow_progress", "straggler", "inefficient"),
    thresholds={
        "minutes": Threshold(12, 5, 300, "minutes for which GPUs are busy and do nothing", True),
        "reporting_minutes": Threshold(
            30, 5, 300, "the same, of a job that reports progress: `stalled` comes first", True
        ),
        "sm_ratio": Threshold(0.1, 0, 1, "active share of multiprocessors (`sm_ratio` of samples), at most"),
        "tensor_ratio": Threshold(
            0.02, 0, 1, "active share of tensor cores (`tensor_ratio` of samples), at most"
        ),
        "power_ratio": Threshold(0.5, 0, 1, "power of the GPU with the most / what that was before, at most"),
        LEAST_WASTE: Threshold(1, 0, 1e9, "dollars per hour that the job pays for its GPUs"),
    }
    | page_from("dollars per hour that the job pays for its GPUs"),
    each="job",
    finding=finding,
    margins=margins,
)
