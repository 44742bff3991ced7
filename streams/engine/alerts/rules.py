"""The rules and their thresholds (docs/alerts.md).

It must not judge: the kernel compares, in the order of the rules here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import RuleLimits

PAGE: Final = "page"
TICKET: Final = "ticket"
SUBJECT_KIND: Final = "job"

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


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
    BurnRule("burn_fast", PAGE, 15 * _MINUTE_MS, 2.5, 5 * _MINUTE_MS, 6.0, 4.8),
    BurnRule("burn_sustained", PAGE, _HOUR_MS, 2.1, 15 * _MINUTE_MS, 2.1, 1.68),
    BurnRule("burn_drift", TICKET, 6 * _HOUR_MS, 1.5, _HOUR_MS, 1.5, 1.2),
)
UNPRICED_RULE: Final = "unpriced"
SILENT_RULE: Final = "silent_job"

# Indexed by the kernel's number of the rule.
NAMES: Final = (*(rule.name for rule in BURN_RULES), UNPRICED_RULE, SILENT_RULE)
SEVERITIES: Final = (*(rule.severity for rule in BURN_RULES), TICKET, TICKET)
WINDOW_MS: Final = (*(rule.long_ms for rule in BURN_RULES), 0, 0)


def limits() -> RuleLimits:
    """Return the thresholds for the kernel."""
    return RuleLimits(
        np.array([WINDOWS_MS.index(rule.long_ms) for rule in BURN_RULES], np.int64),
        np.array([WINDOWS_MS.index(rule.short_ms) for rule in BURN_RULES], np.int64),
        np.array([rule.long_ratio for rule in BURN_RULES]),
        np.array([rule.short_ratio for rule in BURN_RULES]),
        np.array([rule.clear_ratio for rule in BURN_RULES]),
    )
