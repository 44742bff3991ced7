"""`inefficient`: GPUs are busy by their utilisation, and their multiprocessors or tensor cores do next to nothing.

What a job's GPUs did in each half hour is handed in. Utilisation says that some kernel ran, however small: a job that feeds one thread block
at a time is at 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import gpu_use_evidence
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, unheeded
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
    wastes_enough,
)

NAME: Final = "inefficient"
SLOT_MS: Final = 30 * MINUTE_MS
#: Samples come so late: a half hour is over so long before the instant that judges it.
LAG_MS: Final = 2 * MINUTE_MS
#: What so much of the sampled GPU-time says stands for all of it.
SAMPLED_RATIO: Final = 0.5
#: Jobs of one kind are one fault: it is not said again for so long.
AGAIN_MS: Final = 168 * HOUR_MS
SM: Final = "sm"
TENSOR: Final = "tensor"


class JobUse(NamedTuple):
    """What the GPUs of a job did in a half hour: GPU-time in ms, sampled, and of it busy or active by each measure."""

    sampled_ms: int
    productive_ms: int
    sm_sampled_ms: int
    sm_ms: int
    tensor_sampled_ms: int
    tensor_ms: int

    def activity(self, measure: str) -> float | None:
        """The active share by a measure; None: it says nothing of most of the time."""
        sampled, active = (
            (self.sm_sampled_ms, self.sm_ms) if measure == SM else (self.tensor_sampled_ms, self.tensor_ms)
        )
        return None if not sampled or sampled < SAMPLED_RATIO * self.sampled_ms else active / sampled

    def is_low(self, measure: str, of: Mapping[str, float]) -> bool:
        """Whether the GPUs were busy, and hardly active by a measure."""
        active = self.activity(measure)
        most = of["sm_ratio" if measure == SM else "tensor_ratio"]
        return (
            active is not None and active <= most and self.productive_ms >= of["busy_ratio"] * self.sampled_ms
        )

    def plus(self, other: JobUse) -> JobUse:
        """Both together."""
        return JobUse(*map(sum, zip(self, other, strict=True)))


class GpuPaid(NamedTuple):
    """What a job paid for GPUs in a half hour, and for how many thousandths of a GPU times ms."""

    nano: int
    gpu_milli_ms: int


class LowUse(NamedTuple):
    """A job whose GPUs are busy and do next to nothing: by which measure, in how many half hours, what they did, and what they cost."""

    measure: str
    slots: int
    use: JobUse
    paid: GpuPaid

    @property
    def nano_per_gpu_hour(self) -> float:
        """What a GPU costs per hour."""
        return self.paid.nano * 1000 * HOUR_MS / self.paid.gpu_milli_ms if self.paid.gpu_milli_ms else 0.0

    @property
    def waste_nano(self) -> int:
        """What is paid per hour for the inactive share of the time; of the multiprocessors, where they are sampled."""
        active = self.use.activity(SM)
        if active is None:
            active = self.use.activity(TENSOR) or 0.0
        return round(self.paid.nano * HOUR_MS / (self.slots * SLOT_MS) * (1 - active))


def slots_of(of: Mapping[str, float]) -> int:
    """In how many half hours it must be so."""
    return max(-(-round(of["hours"] * HOUR_MS) // SLOT_MS), 1)


def holds(low: LowUse, of: Mapping[str, float]) -> bool:
    """Whether GPUs are so dear, and so much is wasted per hour, that an alert opens."""
    is_dear = low.nano_per_gpu_hour >= of["usd_per_gpu_hour"] * NANO_PER_USD
    return is_dear and wastes_enough(low.waste_nano, of)


def finding(of: LedgerSettings, job: str, low: LowUse, at_ms: int, about: Mapping[str, str]) -> LedgerFinding:
    """The sentence and the evidence of a job. `about`: its owner, team and project."""
    use, waste = low.use, low.waste_nano
    active = use.activity(low.measure) or 0.0
    cores = "multiprocessors (SM)" if low.measure == SM else "tensor cores"
    gpu_milli = round(low.paid.gpu_milli_ms / (low.slots * SLOT_MS))

    def said(at_most: int) -> str:
        gpus = f"{gpu_milli / 1000:,.4g} GPU{'' if gpu_milli == 1000 else 's'}"
        return (
            f"{short(job, at_most)}: {gpus} are {100 * use.productive_ms / use.sampled_ms:.0f} % busy and their {cores}"
            f" {100 * active:.1f} % active for {low.slots * SLOT_MS / HOUR_MS:g} h, {rounded_usd(waste)}/h unused; profile it or use"
            f" cheaper ones, else {unheeded(waste, at_ms)}"
        )

    return LedgerFinding(
        NAME, severity_of(of.severity, waste, of.thresholds), JOB, job, at_ms, sentence(said),
        gpu_use_evidence(job, "toStartOfTenMinutes(u.minute)", "from_minute", at_ms - LAG_MS - low.slots * SLOT_MS, at_ms),
        active, waste, low.paid.nano, about["owner"], about["team"], about["project"], margins=(*margins(of.thresholds, low),),
    )  # fmt: skip


def margins(of: Mapping[str, float], low: LowUse) -> list[Margin]:
    """How far a job is from an alert."""
    found = [
        from_threshold_on("hours for which it has been so", low.slots * SLOT_MS / HOUR_MS, of["hours"]),
        from_threshold_on("busy share", low.use.productive_ms / low.use.sampled_ms, of["busy_ratio"]),
    ]
    usd = low.nano_per_gpu_hour / NANO_PER_USD
    found += unless_zero("dollars per GPU-hour", usd, of["usd_per_gpu_hour"])
    usd = low.waste_nano / NANO_PER_USD
    found += unless_zero("dollars per hour that are wasted", usd, of[LEAST_WASTE])
    return found


RULE: Final = LedgerRule(
    name=NAME,
    title="Busy GPUs that do little",
    severity=TICKET,
    about="`job`",
    holds=(
        "in each half hour of the last 2 h its GPUs were busy for a fifth of the time or more, and their tensor "
        "cores active for at most 2 % of it or their multiprocessors for at most 10 %, where these are "
        "sampled. A GPU-hour costs $1.50 or more, and $1/h are wasted. It ends when they do more for an hour."
        " Once a week for jobs of one name"
    ),
    runbook="runbook.md#busy-gpus-that-do-little",
    yields_to=("stalled", "idle_gpus", "slow_progress", "spinning", "straggler"),
    thresholds={
        "tensor_ratio": Threshold(
            0.02, 0, 1, "active share of tensor cores (`tensor_ratio` of samples), at most"
        ),
        "sm_ratio": Threshold(0.1, 0, 1, "active share of multiprocessors (`sm_ratio` of samples), at most"),
        "busy_ratio": Threshold(0.2, 0.01, 1, "share of the time for which GPUs are busy (`util_ratio`)"),
        "hours": Threshold(2, 0.5, 24, "hours for which it has been so, in whole halves"),
        "usd_per_gpu_hour": Threshold(1.5, 0, 1e6, "what a GPU of it costs per hour, at least"),
        LEAST_WASTE: Threshold(1, 0, 1e9, "dollars per hour that are paid for the inactive share"),
    }
    | page_from("dollars per hour that are paid for the inactive share"),
    each="job",
    finding=finding,
    margins=margins,
)
