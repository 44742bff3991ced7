"""`traffic`: what a job's network and storage cost is more than it should be: dear, new, or the same again and again.

The kernel decides (`moves`), by sums over windows. The first hour of a job is its start: it fetches what it needs.
"""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.conditions import ANNOUNCED_RATIO, NOISE_NANO, NOISE_RATIO, START_MS, YOUNG_RATIO
from streams.engine.rules.evidence import burn_evidence
from streams.engine.rules.flows import flow_costs, request_words
from streams.engine.rules.job_view import JobAt, JobRule, Words
from streams.engine.rules.rule import JOB, PAGE_FROM, TICKET, Margin, Threshold, flag, page_from, usual_up_to


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


def _waste(at: JobAt, _paid_nano_per_hour: int) -> int:
    """What traffic costs per hour: that of the hour before; what is new by a quarter of an hour, as it has just begun."""
    hour_nano = _cost_nano(at, HOUR_MS)
    if 2 * (_cost_nano(at, 2 * HOUR_MS) - hour_nano) >= hour_nano:
        return hour_nano
    return max(hour_nano, 4 * _cost_nano(at, 15 * MINUTE_MS))


def _cost_nano(at: JobAt, span_ms: int) -> int:
    """What network and storage cost in the minutes of a span before, the one in which it begins with them."""
    if at.job is None or at.book is None:
        return 0
    return flow_costs(at.job, at.book, at.at_ms - span_ms, at.at_ms).total()


def _margin(what: str, value: float, threshold: float, is_met: bool, way: int) -> Margin:
    """A margin of which the kernel's comparison says whether it holds: it allows for the last digits of sums."""
    share = value / threshold if threshold else 1.0
    return Margin(what, value, threshold, max(share, 1.0) if is_met else min(share, 1 - NOISE_RATIO), way)


def _margins(at: JobAt) -> list[Margin]:
    of, figures = at.settings["traffic"], at.figures
    assert figures is not None  # margins are asked for with figures
    nano, cost_nano = figures.traffic_nano[HOUR_MS], figures.cost_nano[HOUR_MS]
    rest_nano, expected_nano = max(cost_nano - nano, 0.0), figures.expected_nano[HOUR_MS]

    def dollars(what: str, value_nano: float, name: str, way: int) -> Margin:
        is_met = value_nano >= of[name] * NANO_PER_USD - NOISE_NANO
        return _margin(what, value_nano / NANO_PER_USD, of[name], is_met, way)

    def ratio(what: str, value_nano: float, name: str, way: int) -> Margin:
        is_met = value_nano >= of[name] * rest_nano * (1.0 - NOISE_RATIO)
        return _margin(
            f"{what} / what accrues with time", value_nano / max(rest_nano, 1.0), of[name], is_met, way
        )

    def expected(way: int, with_nano: float = nano) -> Margin:
        all_nano = rest_nano + with_nano
        is_met = all_nano > ANNOUNCED_RATIO * expected_nano * (1.0 + NOISE_RATIO)
        what = "what accrues in an hour, and those / what was expected of it (holds above)"
        return _margin(what, all_nano / max(expected_nano, 1.0), ANNOUNCED_RATIO, is_met, way)

    quarter_nano = figures.traffic_nano[15 * MINUTE_MS]
    is_young = nano < YOUNG_RATIO * quarter_nano * (1.0 - NOISE_RATIO)
    is_young = is_young and 4.0 * quarter_nano < of[PAGE_FROM] * NANO_PER_USD - NOISE_NANO
    began_nano = of["start_times"] * figures.start_nano
    is_more = nano > began_nano * (1.0 + NOISE_RATIO)
    an_hour = "dollars of network and storage in an hour"
    least = "the least dollars of network and storage in each of the last three hours"
    again = (
        "the least in each of the last three spans of one or two hours, per hour, of bursts that are alike"
    )
    found = [
        dollars(an_hour, nano, "usd_per_hour", 0),
        ratio("those", nano, "ratio", 0),
        expected(0),
        flag("paid for an hour, by when it has started", figures.since_paid_ms >= START_MS, 0),
        _margin(
            "those / what they may be by its start (holds above)",
            nano / max(began_nano, 1.0),
            1.0,
            is_more,
            0,
        ),
        flag("begun long enough ago, or enough for a page", not is_young, 0),
        dollars(an_hour, nano, "usd_per_hour", 1),
        dollars(an_hour, nano, PAGE_FROM, 1),
        ratio("those", nano, "ratio", 1),
        expected(1),
        dollars(least, figures.steady_nano, "usd_per_hour", 2),
        ratio("those", figures.steady_nano, "ratio", 2),
        expected(2),
        dollars(again, figures.repeated_nano, "usd_per_hour", 3),
        ratio("those", figures.repeated_nano, "repeated_ratio", 3),
        expected(3, figures.recurring_nano / 2.0),
    ]
    if figures.is_over:
        return [each._replace(value=None, share=None) for each in found]
    goes_on = "traffic" in figures.fires and "traffic" in figures.holds
    return [*found, flag("an alert of it goes on", goes_on, way=4)]


RULE: Final = JobRule(
    name="traffic",
    title="Traffic above computing",
    severity=TICKET,
    about=JOB,
    holds=(
        "network and storage cost at least $5 in an hour and as much as what accrues with time. The hour is "
        "either after the first paid one and costs more than twice of it; or the third such in a row, of a "
        "job on GPUs; or costs $100"
    ),
    runbook="runbook.md#traffic-above-computing",
    thresholds={
        "usd_per_hour": Threshold(5.0, 0.01, 1e9, "dollars of network and storage in an hour"),
        "ratio": Threshold(1.0, 0.01, 1e6, "those dollars / what accrues with time in the hour"),
        "start_times": Threshold(
            2.0, 0, 1e6, "those dollars / those of the first paid hour, above which it is no start"
        ),
        "repeated_ratio": Threshold(
            0.5, 0.01, 1e6, "instead of `ratio`, of bursts in each of three spans of an hour, or of two"
        ),
    }
    | page_from("dollars of network and storage per hour")
    | usual_up_to(),
    window_ms=HOUR_MS,
    planned_quiets=True,
    usual_by="traffic",
    cause=_cause,
    margins=_margins,
    evidence=lambda of: burn_evidence(of.job_id, of.held_ms, of.window_ms, of.expected_nano_per_hour),
    words=Words(
        "pays {cost} for traffic in 1 h, {rest} for all else{cause}",
        "keep the data where the job runs",
        "no longer pays so much for traffic; it paid {cost} in 1 h, {rest} for all else",
        "else at least",
        advice_on=(
            (" requests", "write or read fewer, larger objects"),
            ("storage stored", "delete what is no longer needed, or keep fewer checkpoints"),
        ),
    ),
    waste=_waste,
)
