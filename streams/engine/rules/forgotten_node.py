"""`forgotten_node`: a node is paid for and had no job for hours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.durations import HOUR_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import unheeded, usd
from streams.engine.rules.hourly_sql import END, IN, TO, nodes_sql
from streams.engine.rules.rule import TICKET, HourlyRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.wording import named, nano_of

_NAME: Final = "forgotten_node"
SQL: Final = f"""
SELECT {END}, node, team, node_usd AS usd, hours
FROM
(
    SELECT hour, node, team, node_usd, max(is_used) OVER w AS was_used, count() OVER w AS hours
    FROM ({nodes_sql("fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')", TO)})
    WINDOW w AS (PARTITION BY node ORDER BY hour RANGE BETWEEN {{before_s:UInt32}} PRECEDING AND CURRENT ROW)
)
WHERE {IN} AND NOT was_used AND hours >= {{hours:UInt32}}"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """Return the sentence and the evidence of a row."""
    hours, spent = int(of.thresholds["hours"]), float(row["usd"])
    return LedgerFinding(
        _NAME, of.severity, "node", row["node"], row["at_ms"],
        named("node ", row["node"], f" has been paid for {hours} h and had no job, {usd(nano_of(spent))}/h; terminate it"
            f" or let jobs on it, else {unheeded(nano_of(spent), row['at_ms'])}"),
        f"SELECT * FROM node_hours FINAL WHERE node = {quoted(row['node'])} ORDER BY hour DESC LIMIT 24",
        0.0, nano_of(spent), nano_of(spent * hours), "", row["team"],
    )  # fmt: skip


def _bound(of: Mapping[str, float], from_ms: int) -> Mapping[str, float]:
    hours = int(of["hours"])
    return {"since_ms": from_ms - (hours - 1) * HOUR_MS, "before_s": (hours - 1) * 3600, "hours": hours}


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a row of the query is beyond the thresholds."""
    return [from_threshold_on("whole hours without a job, at least", row["hours"], of["hours"])]


RULE: Final = HourlyRule(
    name=_NAME,
    title="Node without jobs",
    severity=TICKET,
    about="`node`",
    holds="a paid GPU node had no job for 6 h",
    runbook="ledger_rules.md#forgotten_node",
    yields_to=("empty_group",),
    thresholds={"hours": Threshold(6, 1, 168, "whole hours in which a paid node had no job", True)},
    sql=SQL,
    needs="nodes",
    kind="node",
    key="node",
    bound=_bound,
    each="node",
    operator="nodes",
    finding=finding,
    margins=margins,
)
