"""The sentences of alerts as the page and the API show them: what is to come as of now, from the store's present figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from schemas.durations import HOUR_MS
from streams.costs.budgets import exhausted_ms
from streams.engine.alerts.alert import FIRING
from streams.engine.alerts.outlook import CURRENT_MS, AlertSentence, used_up
from streams.engine.ledger_rules.findings import budget_id
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED, THRESHOLDS
from streams.engine.rules.formatting import rounded_usd, short_instant, unheeded
from streams.engine.rules.registry import ALL

Row = Mapping[str, Any]


def _all_of_it(_alert: Row, rates: Row) -> Decimal:
    usd: Decimal = rates["usd_per_hour"]
    return usd


def _above_expected(alert: Row, rates: Row) -> Decimal:
    now: Decimal = rates["usd_per_hour_now"] - rates["expected_usd_per_hour"]
    mean: Decimal = alert["usd_per_hour"] - alert["expected_usd_per_hour"]
    return max(now, mean)


def _above_usual(alert: Row, rates: Row) -> Decimal:
    usual: Decimal = alert["usd_per_hour"] / Decimal(alert["ratio"] or 1)
    return Decimal(rates["usd_per_hour_now"]) - usual


_PART: Final = {"all": _all_of_it, "extra": _above_expected, "above usual": _above_usual}
#: By rule about one job: which part of its present rate goes on if nothing is done. Of others that is not known.
_GOES_ON: Final[Mapping[str, Callable[[Row, Row], Decimal]]] = {
    **{rule.name: _PART[rule.goes_on] for rule in ALL if rule.goes_on},
}


def jobs_of(alerts: Iterable[Row]) -> list[str]:
    """The jobs whose present rates the sentences of these rows of `alerts` need."""
    return sorted(
        {str(row["subject_name"]) for row in alerts if row["status"] == FIRING and row["rule"] in _GOES_ON}
    )


def levels_of(row: Row) -> list[tuple[str, str]]:
    """The levels of a budget, by a row of `streams.costs.budgets.USED`: each in percent, and the forecast, with the id of its alert."""
    kind, name, budget = row["subject_kind"], row["subject_name"], row["budget"]
    start_ms = int(row["period_start_ms"])
    levels = [
        (str(percent), budget_id(BUDGET_USED, kind, name, budget, [percent, *_limits(row)], start_ms))
        for percent in THRESHOLDS
    ]
    return [*levels, ("forecast", budget_id(BUDGET_FORECAST, kind, name, budget, [0], start_ms))]


def budgets_by_alert(used: Iterable[Row]) -> dict[str, Row]:
    """The rows of `streams.costs.budgets.USED` by the ids of the alerts that may fire about them."""
    return {alert_id: row for row in used for _, alert_id in levels_of(row)}


def of_now(alert: Row, budget: Row | None, rates: Row | None, now_ms: int) -> str:
    """The sentence to show of a row of `alerts` at `now_ms`.

    Args:
        alert: The row.
        budget: What is used by now of the budget that it is about; None: of none, or it is not known.
        rates: What its job pays now; None: it is about none, or the job has no current rate.
        now_ms: Log time.
    """
    said = str(alert["summary"])
    if alert["status"] != FIRING:
        return said
    left_s = alert["exhausted_in_s"]
    left_ms = None if left_s is None else int(left_s) * 1000
    sentence = AlertSentence(
        alert["rule"], said, int(alert["held_ms"]), _nano(alert["usd_per_hour"]), left_ms
    )
    if budget is not None:
        return f"{sentence.past()}; {_used(budget, sentence.held_ms, now_ms)}"
    goes_on = _GOES_ON.get(sentence.rule)
    if goes_on is None:
        return sentence.at(now_ms)
    return sentence.at(now_ms, 0 if rates is None else _nano(goes_on(alert, rates)))


def _used(budget: Row, held_ms: int, now_ms: int) -> str:
    at_ms, rate_nano = int(budget["time_ms"]), _nano(budget["usd_per_hour"])
    used = f"{100 * budget['used_ratio']:.1f} % at {short_instant(at_ms, held_ms)} UTC, {rounded_usd(rate_nano)}/h"
    if now_ms - at_ms > CURRENT_MS:
        return used  # budgets have not been judged since
    end_ms = exhausted_ms(budget)
    if end_ms is not None:
        return used + used_up(end_ms - at_ms, at_ms)
    goes_on = budget["used_ratio"] >= 1 and rate_nano > 0
    return f"{used}, else {unheeded(rate_nano, at_ms)}" if goes_on else used


def _limits(row: Row) -> tuple[int | None, ...]:
    """The limits in the order and units of `Amounts`; 0 is stored for none."""
    gpu, wall = row["limit_gpu_hours"] * HOUR_MS * 1000, row["limit_wall_clock_hours"] * HOUR_MS
    return _nano(row["limit_usd"]) or None, round(gpu) or None, round(wall) or None


def _nano(usd: Decimal) -> int:
    return int(usd.scaleb(9))
