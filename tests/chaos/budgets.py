"""Budgets in a chaos run: their records, and which of their alerts must fire in the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from streams.engine.alerts.budgets import budget_of
from streams.engine.ledger_rules.findings import budget_alert_id
from streams.engine.ledger_rules.periods import period_at
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED
from tests.oracle.budgets import (
    HOUR_MS,
    MINUTE_MS,
    PERCENTS,
    Amounts,
    LikeHours,
    begins_ms,
    forecast_told,
    period_end,
    reached,
    would_use,
)
from tests.oracle.model import Json, Tables
from tests.simulator.ledger_check import used_by_minute

_SUBJECTS: Final = (("team", "red"), ("team", "blue"), ("owner", "ann"))
#: Which thresholds are reached, is up to the run.
RECORDS: Final[tuple[Json, ...]] = tuple(
    {"name": f"{name}-{usd}-{per}", field: name, "usd": usd, "per": per}
    for field, name in _SUBJECTS
    for per, amounts in (("total", ("20", "60", "180", "540", "100000")), ("month", ("4000", "100000")))
    for usd in amounts
)

Alerts = Mapping[str, Mapping[str, Any]]


def budget_differences(alerts: Alerts, tables: Tables, judged_ms: int) -> Iterator[str]:
    """One sentence per fault; `alerts`: rows by id; `tables`: the oracle's. A row may be of the minute after the last known one."""
    for record in RECORDS:
        match: dict[str, str] = {name: str(record[name]) for name in ("team", "owner") if name in record}
        spent = used_by_minute(
            tables, {name: (value,) for name, value in match.items()}, judged_ms + MINUTE_MS
        )
        subject = BudgetSubject(budget_of(str(record["name"]), record, match))
        instants = (judged_ms, judged_ms + MINUTE_MS)
        if not any(_is_told(subject, alerts, spent, at_ms) for at_ms in instants):
            fired = sorted(_fired(subject, alerts, judged_ms))
            yield f"budget {record['name']}: {fired} % fire, used {_used(spent, judged_ms)[0]} nano-dollars"
        may = [_forecast(subject, spent, at_ms) for at_ms in instants]
        forecast = alerts.get(
            budget_alert_id(BUDGET_FORECAST, subject, 0, period_at(subject.budget.per, judged_ms))
        )
        if _fires(forecast) not in set.union(*may):
            yield f"budget {record['name']}: its forecast fires {_fires(forecast)}, want one of {may}"


def _is_told(subject: BudgetSubject, alerts: Alerts, spent: Mapping[int, Amounts], at_ms: int) -> bool:
    """The highest threshold that is reached fires; lower ones that were reached with it do not."""
    used, limits = _used(spent, at_ms), [subject.budget.limits.usd_nano, None, None]
    want = {percent for percent in PERCENTS if reached(used, limits, percent)}
    got = _fired(subject, alerts, at_ms)
    return got <= want and (not want or max(want) in got)


def _fired(subject: BudgetSubject, alerts: Alerts, at_ms: int) -> set[int]:
    period = period_at(subject.budget.per, at_ms)
    return {
        percent
        for percent in PERCENTS
        if _fires(alerts.get(budget_alert_id(BUDGET_USED, subject, percent, period)))
    }


def _forecast(subject: BudgetSubject, spent: Mapping[int, Amounts], at_ms: int) -> set[bool]:
    """Whether it fires; both where it depends on what was told before."""
    per, limit = subject.budget.per, subject.budget.limits.usd_nano
    end_ms, used = period_end(per, at_ms), _used(spent, at_ms)
    if end_ms is None or limit is None or used[0] >= limit or 20 * used[0] < limit:
        return {False}
    begin_ms = begins_ms(per, end_ms)
    if 20 * (at_ms - begin_ms) < end_ms - begin_ms:
        return {False}
    would = would_use(spent, LikeHours(spent), used, per, at_ms, end_ms)[0]
    if would > limit:
        first_ms = min(spent) // HOUR_MS * HOUR_MS
        told = forecast_told(spent, [limit, None, None], per, first_ms, at_ms)
        return {True} if all(over is None for _, over in told) else {False, True}
    return {False} if 6 * would <= 5 * limit else {False, True}


def _used(spent: Mapping[int, Amounts], at_ms: int) -> list[int]:
    """Of a period without a beginning, or of one in which all was used."""
    inside = [amounts for minute_ms, amounts in spent.items() if minute_ms < at_ms]
    return [sum(each) for each in zip(*inside, strict=True)] if inside else [0, 0, 0]


def _fires(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row["status"] == "firing"
