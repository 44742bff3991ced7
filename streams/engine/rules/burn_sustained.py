"""`burn_sustained`: a job costs more than expected for an hour."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.rules.burn_rule import burn_rule

RULE: Final = burn_rule(
    "burn_sustained",
    "Burning above plan",
    HOUR_MS,
    2.1,
    15 * MINUTE_MS,
    2.1,
    ("burn_fast", "burn_drift", "ceiling", "price_basis"),
)
