"""`burn_fast`: a job costs a multiple of what is expected, for minutes."""

from __future__ import annotations

from typing import Final

from schemas.durations import MINUTE_MS
from streams.engine.rules.burn_rule import burn_rule

RULE: Final = burn_rule(
    "burn_fast", "Runaway burn", 15 * MINUTE_MS, 2.5, 5 * MINUTE_MS, 6.0, ("price_basis",)
)
