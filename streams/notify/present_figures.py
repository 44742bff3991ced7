"""What repeated messages say of alerts that still fire: the figures of now, as the tables have them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from schemas.durations import MINUTE_MS
from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.outlook import CURRENT_MS, sentence_of
from streams.engine.ledger_rules.budget_now import BudgetRow, budgets_by_alert, used_now
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED
from streams.engine.rules.formatting import SENTENCE_AT_MOST, rounded_usd, span
from streams.engine.rules.resubmit_loop import NAME as RESUBMIT_LOOP
from streams.engine.rules.rule import JOB
from streams.engine.rules.run_jobs import LaterTries
from streams.notify.history import StoredDeliveries
from streams.notify.store_faults import DeliveryFaults
from streams.threads import Threads

#: The rates of jobs that run, and what is used of budgets, are written each minute.
_FIGURES_WITHIN_MS: Final = 3 * MINUTE_MS
_ABOUT_BUDGETS: Final = (BUDGET_USED, BUDGET_FORECAST)


class PresentFigures:
    """Call `of` before a repetition; without an answer of the store it says what the first message said."""

    def __init__(
        self, records: StoredDeliveries, clock: Clock, faults: DeliveryFaults, timeout_ms: int
    ) -> None:
        self._records = records
        self._clock = clock
        self._faults = faults
        self._timeout_ms = timeout_ms
        self._threads = Threads("present-figures")

    async def of(self, alerts: Sequence[Alert]) -> Mapping[str, Alert]:
        """The alerts as of now, by id; one that is not among them is as it was."""
        now_ms = self._clock.now_ms()
        try:
            reading = self._threads.run(self._read, alerts, now_ms)
            found = await asyncio.wait_for(reading, self._timeout_ms / 1000)
        except Exception as fault:  # noqa: BLE001 - a failing delivery must not stop metering
            self._faults.failed("read_alerts", fault)
            return {}
        self._faults.worked("read_alerts")
        return found

    def _read(self, alerts: Sequence[Alert], now_ms: int) -> dict[str, Alert]:
        rows = self._records.alerts_of([alert.alert_id for alert in alerts])
        jobs = [alert.subject_name for alert in alerts if alert.subject_kind == JOB]
        rates = self._records.rates_of(jobs, now_ms - _FIGURES_WITHIN_MS) if jobs else {}
        of_budgets = [alert.subject_name for alert in alerts if alert.rule in _ABOUT_BUDGETS]
        used = self._records.budgets_of(of_budgets, now_ms - _FIGURES_WITHIN_MS) if of_budgets else ()
        budgets = budgets_by_alert(used)
        later = self._records.later_tries([alert for alert in alerts if alert.rule == RESUBMIT_LOOP])
        return {
            alert.alert_id: _present(
                alert,
                rows.get(alert.alert_id),
                rates,
                budgets.get(alert.alert_id),
                later.get(alert.alert_id),
                now_ms,
            )
            for alert in alerts
        }


def _present(
    alert: Alert,
    row: Alert | None,
    rates: Mapping[str, int],
    budget: BudgetRow | None,
    later: LaterTries | None,
    now_ms: int,
) -> Alert:
    """The alert for those who were sent it, with the figures of its newest row and of what it is about now."""
    if row is not None and row.status == FIRING and row.held_ms > alert.held_ms:
        fields = ("ratio", "usd_nano_per_hour", "expected_nano_per_hour", "cost_nano", "summary", "held_ms")
        alert = msgspec.structs.replace(alert, **{name: getattr(row, name) for name in fields})
    if now_ms - alert.held_ms <= CURRENT_MS:
        return alert  # it says what is now
    firing = f"firing for {span((now_ms - alert.started_ms) // MINUTE_MS * MINUTE_MS)}"
    rate_nano = rates.get(alert.subject_name) if alert.subject_kind == JOB else None
    pays = "" if rate_nano is None else f", pays {rounded_usd(rate_nano)}/h now"
    used = "" if budget is None else f"; {used_now(budget, alert.held_ms, now_ms)}"
    tries = "" if later is None else f"; {later.words(alert.cost_nano)}"
    said = f"{sentence_of(alert).past()}; {firing}{pays}{used}{tries}"
    return msgspec.structs.replace(alert, summary=said) if len(said) <= SENTENCE_AT_MOST else alert
