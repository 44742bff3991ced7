"""The sentences of alerts as the page and the API show them: what is to come as of now, from the store's present figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from schemas.units import nano_of_usd
from streams.engine.alerts.alert import FIRING
from streams.engine.alerts.outlook import AlertSentence
from streams.engine.ledger_rules.budget_now import used_now
from streams.engine.rules.registry import ALL
from streams.engine.rules.resubmit_loop import NAME as RESUBMIT_LOOP
from streams.engine.rules.run_jobs import LaterTries

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


def is_of_run(alert: Row) -> bool:
    """Whether a row of `alerts` is about the tries of a run, of which more may have followed."""
    return str(alert["rule"]) == RESUBMIT_LOOP and str(alert["status"]) == FIRING


def of_now(alert: Row, budget: Row | None, rates: Row | None, later: LaterTries | None, now_ms: int) -> str:
    """The sentence to show of a row of `alerts` at `now_ms`.

    Args:
        alert: The row.
        budget: What is used by now of the budget that it is about; None: of none, or it is not known.
        rates: What its job pays now; None: it is about none, or the job has no current rate.
        later: The jobs of its run that followed; None: none, or it is about no run.
        now_ms: Log time.
    """
    said = str(alert["summary"])
    if alert["status"] != FIRING:
        return said
    left_s = alert["exhausted_in_s"]
    left_ms = None if left_s is None else int(left_s) * 1000
    sentence = AlertSentence(
        alert["rule"], said, int(alert["held_ms"]), nano_of_usd(alert["usd_per_hour"]), left_ms
    )
    if budget is not None:
        return f"{sentence.past()}; {used_now(budget, sentence.held_ms, now_ms)}"
    if later is not None:
        return f"{sentence.past()}; {later.words(nano_of_usd(alert['cost_usd']))}"
    goes_on = _GOES_ON.get(sentence.rule)
    if goes_on is None:
        return sentence.at(now_ms)
    return sentence.at(now_ms, 0 if rates is None else nano_of_usd(goes_on(alert, rates)))
