"""`unallocated`: GPU nodes cost more than what jobs paid for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, unheeded
from streams.engine.rules.hourly_sql import AFTER_FIRST, END, FROM, STRAY_NANO, STRAYS, TO, nodes_sql
from streams.engine.rules.rule import TICKET, HourlyRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.wording import nano_of

_NAME: Final = "unallocated"
SQL: Final = f"""
SELECT {END}, sum(node_usd) AS usd, sumIf(greatest(toDecimal128(node_usd, 9) - toDecimal128(job_usd, 9)
    - toDecimal128(toFloat64(node_usd) * least(unpriced_ms / gpu_ms, 1), 9), toDecimal128(0, 9)), stray_nano < {{named_stray_nano:Int64}}) AS idle_usd
FROM
(
    SELECT w.*, {STRAY_NANO} AS stray_nano
    FROM ({nodes_sql(FROM, TO)}) AS w LEFT ANY JOIN ({STRAYS}) AS x ON x.hour = w.hour AND x.node = w.node
)
WHERE {AFTER_FIRST} GROUP BY hour
HAVING toFloat64(idle_usd) > {{idle_ratio:Float64}} * toFloat64(usd) AND toFloat64(idle_usd) >= {{least_usd:Float64}}"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """Return the sentence and the evidence of a row."""
    spent, idle = float(row["usd"]), float(row["idle_usd"])
    return LedgerFinding(
        _NAME, of.severity, "fleet", "nodes", row["at_ms"],
        f"{rounded_usd(nano_of(idle))} of the {rounded_usd(nano_of(spent))} that GPU nodes cost in an hour ({100 * idle / spent:.0f} %) was used"
        f" by no job (`trainfare idle --by cluster,node`); give nodes back or let jobs in, else {unheeded(nano_of(idle), row['at_ms'])}",
        "SELECT * FROM idle_hours ORDER BY hour DESC LIMIT 24",
        idle / spent, nano_of(idle), nano_of(idle),
    )  # fmt: skip


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a row of the query is beyond the thresholds."""
    spent, idle = float(row["usd"]), float(row["idle_usd"])
    return [
        from_threshold_on(
            "share that no job used (above)", idle / spent if spent else None, of["idle_ratio"]
        ),
        from_threshold_on("dollars of it", idle, of["least_usd"]),
    ]


RULE: Final = HourlyRule(
    name=_NAME,
    title="Unallocated spend",
    severity=TICKET,
    about="`fleet`",
    holds="jobs paid for less than 95 % of what GPU nodes cost, and $1 or more was idle",
    runbook="ledger_rules.md#unallocated",
    yields_to=("empty_group", "forgotten_node"),
    thresholds={
        "idle_ratio": Threshold(0.05, 0.001, 1, "share of what nodes cost in an hour that no job used"),
        "least_usd": Threshold(1, 0.01, 1e9, "dollars of it"),
    },
    sql=SQL,
    needs="nodes",
    kind="fleet",
    key="",
    operator="nodes",
    finding=finding,
    margins=margins,
)
