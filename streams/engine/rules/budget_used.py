"""`budget_used`: a budget's period has used 50, 80 or 100 % of a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams.engine.rules.rule import PAGE, TICKET, AlertRule, Margin, from_threshold_on

#: Percent of a limit that are alerted, and how urgent each is.
THRESHOLDS: Final[Mapping[int, str]] = {50: TICKET, 80: TICKET, 100: PAGE}


def margins(used_ratio: float, percent: int = 100) -> list[Margin]:
    """Return how far a budget is from one of its thresholds."""
    return [from_threshold_on("used share of the limit that is used most", used_ratio, percent / 100)]


BUDGET_USED: Final = "budget_used"
RULE: Final = AlertRule(
    name=BUDGET_USED,
    title="Budget used",
    severity=PAGE,
    about="`team`, `owner`, `project`, `experiment`, `job`, `fleet`",
    holds="50, 80 or 100 % of a [budget](budgets.md) are used",
    runbook="budgets.md#alerts",
)
