"""`burn_drift`: a job costs more than expected for six hours."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS
from streams.engine.rules.burn_rule import burn_rule

RULE: Final = burn_rule(
    "burn_drift",
    "Slow drift above plan",
    6 * HOUR_MS,
    1.4,
    HOUR_MS,
    1.4,
    ("burn_fast", "burn_sustained", "ceiling", "price_basis"),
)
