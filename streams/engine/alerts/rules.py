"""The rules about jobs: their names, severities and default thresholds (docs/alerts.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS

PAGE: Final = "page"
TICKET: Final = "ticket"
SUBJECT_KIND: Final = "job"


class BurnRule(NamedTuple):
    """Holds when cost / expected cost reaches both ratios; an open alert clears below 80 % of the short ratio."""

    name: str
    severity: str
    long_ms: int
    long_ratio: float
    short_ms: int
    short_ratio: float
    clear_ratio: float  # written out: 0.8 x 6 is not exact in floating point


BURN_RULES: Final = (
    BurnRule("burn_fast", PAGE, 15 * MINUTE_MS, 2.5, 5 * MINUTE_MS, 6.0, 4.8),
    BurnRule("burn_sustained", PAGE, HOUR_MS, 2.1, 15 * MINUTE_MS, 2.1, 1.68),
    BurnRule("burn_drift", TICKET, 6 * HOUR_MS, 1.5, HOUR_MS, 1.5, 1.2),
)
UNPRICED_RULE: Final = "unpriced"
SILENT_RULE: Final = "silent_job"
RETRY_RULE: Final = "retry_loop"
IDLE_RULE: Final = "idle_gpus"
RUNAWAY_RULE: Final = "runaway_length"
TRAFFIC_RULE: Final = "traffic"
BASIS_RULE: Final = "price_basis"
#: Rules that a planned rate can quiet: those that compare a cost with what was expected.
PLANNED_QUIETS: Final = (*(rule.name for rule in BURN_RULES), BASIS_RULE)


class Threshold(NamedTuple):
    """A threshold of a rule: its default, and the least and greatest that a record may set."""

    default: float
    least: float
    most: float
    what: str
    is_count: bool = False


class JobRule(NamedTuple):
    """A rule about jobs and its defaults."""

    name: str
    severity: str
    thresholds: Mapping[str, Threshold]
    window_ms: int  # of the figures; 0: it has none
    enabled: bool = True


def _burn(rule: BurnRule) -> JobRule:
    # A ratio of 1 would hold for every job, also for those that cost what is expected.
    return JobRule(
        rule.name,
        rule.severity,
        {
            "long_ratio": Threshold(
                rule.long_ratio, 1.05, 1e6, "cost / expected cost over the longer window"
            ),
            "short_ratio": Threshold(rule.short_ratio, 1.05, 1e6, "the same over the shorter window"),
            "extra_usd": Threshold(1.0, 0.01, 1e9, "dollars more than expected over the longer window"),
        },
        rule.long_ms,
    )


#: Indexed by the kernel's number of the rule.
JOB_RULES: Final = (
    *(_burn(rule) for rule in BURN_RULES),
    JobRule(
        UNPRICED_RULE,
        TICKET,
        {"traffic": Threshold(1, 0, 1, "1: traffic without a price counts, too; 0: GPU-time only", True)},
        0,
        enabled=False,  # `missing_price` sends one alert for all jobs that lack the same price
    ),
    JobRule(
        SILENT_RULE,
        TICKET,
        {
            "minutes": Threshold(
                10, 1, 10_080, "minutes without a heartbeat or sample, of a job that had any"
            ),
            "never_heard_minutes": Threshold(
                0,
                0,
                10_080,
                "minutes of running on GPUs without any heartbeat or sample ever; 0: not looked at",
            ),
        },
        0,
    ),
    JobRule(
        RETRY_RULE,
        PAGE,
        {
            "failures": Threshold(3, 2, 1000, "attempts that failed or were superseded within an hour", True),
            "preemptions": Threshold(6, 2, 1000, "attempts that were preempted within an hour", True),
            "lost_usd": Threshold(
                25.0, 0.01, 1e9, "dollars lost within an hour by at least two such failures"
            ),
        },
        5 * MINUTE_MS,
    ),
    JobRule(
        IDLE_RULE,
        TICKET,
        {"productive_ratio": Threshold(0.2, 0.001, 1.0, "productive share of sampled GPU-time in 30 min")},
        5 * MINUTE_MS,
    ),
    JobRule(
        RUNAWAY_RULE,
        TICKET,
        {
            "hours": Threshold(168, 0.1, 9600, "hours since the first paid instant"),
            "grace_minutes": Threshold(0, 0, 525_600, "minutes after the deadline of the job"),
        },
        5 * MINUTE_MS,
    ),
    JobRule(
        TRAFFIC_RULE,
        PAGE,
        {
            "usd_per_hour": Threshold(5.0, 0.01, 1e9, "dollars of network and storage in an hour"),
            "ratio": Threshold(1.0, 0.01, 1e6, "those dollars / what accrues with time in the hour"),
        },
        HOUR_MS,
    ),
    JobRule(
        BASIS_RULE,
        TICKET,
        {"rise_ratio": Threshold(1.0, 1.0, 1e6, "new rate per GPU / old one: above it")},
        5 * MINUTE_MS,
    ),
)
NAMES: Final = tuple(rule.name for rule in JOB_RULES)
SEVERITIES: Final = tuple(rule.severity for rule in JOB_RULES)
WINDOW_MS: Final = tuple(rule.window_ms for rule in JOB_RULES)
