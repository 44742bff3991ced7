"""`traffic`: a job's network and storage cost more than what accrues with time, or alone make a burn page.

The kernel decides (`_moves`), as that depends on the burn rules.
"""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.conditions import NOISE_NANO, NOISE_RATIO
from streams.engine.rules.evidence import burn_evidence
from streams.engine.rules.flows import flow_costs, request_words
from streams.engine.rules.job_view import JobAt, JobRule, Words
from streams.engine.rules.rule import JOB, PAGE, Margin, Threshold, flag


def _cause(at: JobAt) -> str:
    """Return the flow of traffic, or the requests, that cost most in the hour before."""
    if at.job is None or at.book is None:
        return ""
    if requests := request_words(at.job, at.book, at.at_ms - HOUR_MS, at.at_ms):
        return f": {requests}"
    costs = flow_costs(at.job, at.book, at.at_ms - HOUR_MS, at.at_ms)
    if not costs:
        return ""
    # Of equal ones the first by name: the order of amounts must not matter.
    return f": {min(costs, key=lambda flow: (-costs[flow], flow))}"


def _margins(at: JobAt) -> list[Margin]:
    of, figures = at.settings["traffic"], at.figures
    assert figures is not None  # margins are asked for with figures
    nano = figures.traffic_nano[HOUR_MS]
    rest_nano = max(figures.cost_nano[HOUR_MS] - nano, 0.0)
    least_nano = of["usd_per_hour"] * NANO_PER_USD
    dollars = "dollars of network and storage in an hour", "those / what accrues with time"
    if figures.is_over:
        found = [Margin(what, None, of[name], None) for what, name in zip(dollars, of, strict=True)]
        return [*found, flag("makes a burn rule page (1: yes)", holds=False, way=1)]
    ratio = nano / max(rest_nano, 1.0)
    is_enough, is_more = (
        nano >= least_nano - NOISE_NANO,
        nano >= of["ratio"] * rest_nano * (1.0 - NOISE_RATIO),
    )
    usd_share, ratio_share = nano / least_nano, ratio / of["ratio"]
    return [
        Margin(
            dollars[0],
            nano / NANO_PER_USD,
            of["usd_per_hour"],
            max(usd_share, 1.0) if is_enough else usd_share,
        ),
        Margin(
            dollars[1],
            ratio,
            of["ratio"],
            max(ratio_share, 1.0) if is_more else min(ratio_share, 1 - NOISE_RATIO),
        ),
        flag(
            "makes a burn rule page (1: yes)",
            "traffic" in figures.holds and not (is_enough and is_more),
            way=1,
        ),
    ]


RULE: Final = JobRule(
    name="traffic",
    title="Traffic above computing",
    severity=PAGE,
    about=JOB,
    holds="network and storage cost more in an hour than what accrues with time, and at least $5; or they alone make a burn"
    " page",
    runbook="operations.md#traffic-above-computing",
    thresholds={
        "usd_per_hour": Threshold(5.0, 0.01, 1e9, "dollars of network and storage in an hour"),
        "ratio": Threshold(1.0, 0.01, 1e6, "those dollars / what accrues with time in the hour"),
    },
    window_ms=HOUR_MS,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: burn_evidence(of.job_id, of.held_ms, of.window_ms, of.expected_nano_per_hour),
    words=Words(
        "pays {cost} for traffic in 1 h, {rest} for all else{cause}",
        "keep the data where the job runs",
        "no longer pays so much for traffic; it paid {cost} in 1 h, {rest} for all else",
        "else at least",
        advice_on=(" requests", "write or read fewer, larger objects"),
    ),
)
