"""`owner_coverage`: too much of what jobs cost has no owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.reserved import USERS_JOBS
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd
from streams.engine.rules.hourly_sql import COST, END, IN, JOBS
from streams.engine.rules.rule import (
    TICKET,
    HourlyRule,
    Margin,
    Threshold,
    below_threshold,
    from_threshold_on,
)
from streams.engine.rules.wording import hours_sql, nano_of

_NAME: Final = "owner_coverage"
#: Kind and name of what its alerts are about.
SUBJECT: Final = ("fleet", "owners")
SQL: Final = f"""
SELECT {END}, sum(h.cost) AS usd, sumIf(h.cost, j.owner = '') AS unowned_usd
FROM (SELECT hour, job_id, {COST} AS cost FROM job_hours FINAL WHERE {IN} AND {USERS_JOBS}) AS h
LEFT ANY JOIN ({JOBS}) AS j ON j.job_id = h.job_id
GROUP BY hour
HAVING toFloat64(usd) >= {{least_usd:Float64}} AND toFloat64(unowned_usd) > (1 - {{owned_ratio:Float64}}) * toFloat64(usd)"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """Return the sentence and the evidence of a row."""
    spent, unowned = float(row["usd"]), float(row["unowned_usd"])
    return LedgerFinding(
        _NAME, of.severity, *SUBJECT, row["at_ms"],
        f"{rounded_usd(nano_of(unowned))} of {rounded_usd(nano_of(spent))} in an hour ({100 * unowned / spent:.0f} %) is of jobs without an owner:"
        " nobody gets their alerts; let the scheduler's events name `owner`",
        hours_sql("h.owner = ''", row),
        1 - unowned / spent, nano_of(unowned), nano_of(unowned),
    )  # fmt: skip


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a row of the query is beyond the thresholds."""
    spent, unowned = float(row["usd"]), float(row["unowned_usd"])
    return [
        below_threshold(
            "share that has an owner (below)", 1 - unowned / spent if spent else None, of["owned_ratio"]
        ),
        from_threshold_on("dollars that all jobs cost", spent, of["least_usd"]),
    ]


RULE: Final = HourlyRule(
    name=_NAME,
    title="Spend without an owner",
    severity=TICKET,
    about="`fleet`",
    holds="less than 95 % of what jobs cost has an owner, from $1 on",
    runbook="ledger_rules.md#rules-across-jobs",
    thresholds={
        "owned_ratio": Threshold(0.95, 0.01, 1, "share of what jobs cost in an hour that has an owner"),
        "least_usd": Threshold(1, 0.01, 1e9, "dollars that all jobs cost in that hour"),
    },
    sql=SQL,
    needs="jobs",
    kind="fleet",
    key="",
    finding=finding,
    margins=margins,
)
