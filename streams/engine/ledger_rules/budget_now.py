"""What a budget's alert says of what is used by now, wherever it is shown or repeated: from rows of `budget_use`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.durations import HOUR_MS
from schemas.units import nano_of_usd
from streams.engine.alerts.outlook import CURRENT_MS, used_up
from streams.engine.ledger_rules.findings import budget_id
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED, THRESHOLDS
from streams.engine.rules.formatting import rounded_usd, short_instant, unheeded

#: A row of `budget_use`, its instants as `time_ms`, `period_start_ms` and `period_end_ms`.
BudgetRow = Mapping[str, Any]


def levels_of(row: BudgetRow) -> list[tuple[str, str]]:
    """The levels of a budget: each in percent, and the forecast, with the id of its alert."""
    kind, name, budget = row["subject_kind"], row["subject_name"], row["budget"]
    start_ms = int(row["period_start_ms"])
    levels = [
        (str(percent), budget_id(BUDGET_USED, kind, name, budget, [percent, *_limits(row)], start_ms))
        for percent in THRESHOLDS
    ]
    return [*levels, ("forecast", budget_id(BUDGET_FORECAST, kind, name, budget, [0], start_ms))]


def budgets_by_alert(used: Iterable[BudgetRow]) -> dict[str, BudgetRow]:
    """The rows by the ids of the alerts that may fire about them."""
    return {alert_id: row for row in used for _, alert_id in levels_of(row)}


def exhausted_ms(row: BudgetRow) -> int | None:
    """Return when the dollars will be used up at the rate of the last hour; None: not in the period, or they are."""
    limit, used, rate = row["limit_usd"], row["used_usd"], row["usd_per_hour"]
    if not limit or not rate or used >= limit:
        return None
    at_ms = int(row["time_ms"]) + int((limit - used) * HOUR_MS / rate)
    end_ms = int(row["period_end_ms"])
    return None if end_ms and at_ms >= end_ms else at_ms


def used_now(row: BudgetRow, held_ms: int, now_ms: int) -> str:
    """What is used at the last minute that was judged, to follow a sentence of `held_ms`; as of `now_ms` also until when it lasts."""
    at_ms, rate_nano = int(row["time_ms"]), nano_of_usd(row["usd_per_hour"])
    used = (
        f"{100 * row['used_ratio']:.1f} % at {short_instant(at_ms, held_ms)} UTC, {rounded_usd(rate_nano)}/h"
    )
    if now_ms - at_ms > CURRENT_MS:
        return used  # budgets have not been judged since
    end_ms = exhausted_ms(row)
    if end_ms is not None:
        return used + used_up(end_ms - at_ms, at_ms)
    goes_on = row["used_ratio"] >= 1 and rate_nano > 0
    return f"{used}, else {unheeded(rate_nano, at_ms)}" if goes_on else used


def _limits(row: BudgetRow) -> tuple[int | None, ...]:
    """The limits in the order and units of `Amounts`; 0 is stored for none."""
    gpu, wall = row["limit_gpu_hours"] * HOUR_MS * 1000, row["limit_wall_clock_hours"] * HOUR_MS
    return nano_of_usd(row["limit_usd"]) or None, round(gpu) or None, round(wall) or None
