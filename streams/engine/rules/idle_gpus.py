"""`idle_gpus`: a job is paid for GPUs of which half an hour of samples shows hardly any work.

`idle_check` finds the jobs: sums are those of the coverage.
"""

from __future__ import annotations

from typing import Final

from schemas.durations import MINUTE_MS
from streams.engine.rules.evidence import idle_evidence
from streams.engine.rules.job_view import JobAt, JobRule, Words
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, below_threshold, flag, from_threshold_on

WINDOW_MINUTES: Final = 30
LAG_MINUTES: Final = 2
#: Samples cover at least this share of the GPU-time that its events say it held.
COVERED_RATIO: Final = 0.5


def _cause(at: JobAt) -> str:
    share = at.idle
    if share is None:
        return "its GPUs idle"
    percent = 100 * share.productive_ms / share.sampled_ms
    gpus = share.sampled_ms / (WINDOW_MINUTES * MINUTE_MS)
    held = "1 GPU" if gpus == 1 else f"{gpus:.3g} GPUs"
    did = f"{percent:.1f} % productive" if share.productive_ms else "no work"
    return f"{held} idle: {did} in {WINDOW_MINUTES} min"


def _margins(at: JobAt) -> list[Margin]:
    share, least = at.idle, at.settings["idle_gpus"]["productive_ratio"]
    productive = None if share is None or not share.sampled_ms else share.productive_ms / share.sampled_ms
    covered = None
    if share is not None and share.sampled_ms:
        covered = share.sampled_ms * 1000 / share.held_ms if share.held_ms else COVERED_RATIO
    below = below_threshold(f"productive share in {WINDOW_MINUTES} min (holds below)", productive, least)
    if share is not None and share.sampled_ms and share.productive_ms >= least * share.sampled_ms:
        below = below._replace(share=min(below.share or 0.0, 1 - 1e-12))
    return [
        below,
        from_threshold_on("sampled share of the GPU-time that it held", covered, COVERED_RATIO),
        flag(f"accrues cost for all of {WINDOW_MINUTES} min (1: yes)", share is not None and share.is_paid),
    ]


RULE: Final = JobRule(
    name="idle_gpus",
    title="Idle GPUs",
    severity=TICKET,
    about=JOB,
    holds="less than 20 % of the sampled GPU-time of 30 min was [productive](cost_model.md#samples)",
    runbook="operations.md#idle-gpus",
    thresholds={
        "productive_ratio": Threshold(0.2, 0.001, 1.0, "productive share of sampled GPU-time in 30 min")
    },
    window_ms=5 * MINUTE_MS,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: idle_evidence(of.job_id, of.held_ms),
    words=Words("leaves {cause}", "stop it or give GPUs back", "uses its GPUs again, or has ended"),
    goes_on="all",
)
