"""`budget_forecast`: by what like hours used, a budget is used up before its period ends."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS
from streams.engine.rules.rule import TICKET, AlertRule, Margin, from_threshold_on


def margins(exhausted_in_ms: int | None, ends_in_ms: int) -> list[Margin]:
    """Return how far a budget is from being used up before its period ends."""
    early = None if exhausted_in_ms is None else (ends_in_ms - exhausted_in_ms) / HOUR_MS
    return [from_threshold_on("hours before its end at which it is used up (above)", early, 0)]


BUDGET_FORECAST: Final = "budget_forecast"
RULE: Final = AlertRule(
    name=BUDGET_FORECAST,
    title="Budget will run out",
    severity=TICKET,
    about="`team`, `owner`, `project`, `experiment`, `job`, `fleet`",
    holds="a [budget](budgets.md) is used up before its period ends, if [like hours](budgets.md#forecast) go on as before",
    runbook="budgets.md#alerts",
    yields_to=("budget_used",),
)
