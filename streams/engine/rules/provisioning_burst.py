"""`provisioning_burst`: far more nodes of a type are new in an hour than usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import short
from streams.engine.rules.hourly_sql import AFTER_FIRST, END, IN, in_named_group
from streams.engine.rules.rule import PAGE, HourlyRule, Margin, from_threshold_on

_NAME: Final = "provisioning_burst"
SQL: Final = f"""
SELECT {END}, cluster, instance_type, nodes, usual_nodes, gone_nodes FROM provisioning_bursts
WHERE {IN} AND {AFTER_FIRST} AND NOT {in_named_group("cluster", "instance_type")}"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """Return the sentence and the evidence of a row."""
    what = f"{short(row['instance_type'])} in {short(row['cluster'])}"
    return LedgerFinding(
        _NAME, of.severity, "fleet", f"{row['cluster']}/{row['instance_type']}", row["at_ms"],
        f"{row['nodes']} nodes {what} were new in an hour, usual are {row['usual_nodes']:.1f}; look at the autoscaler and its limits",
        "SELECT * FROM provisioning_bursts ORDER BY hour DESC LIMIT 20", float(row["nodes"]),
    )  # fmt: skip


def margins(_of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a row of the query is beyond the thresholds."""
    usual = float(row["usual_nodes"])
    return [
        from_threshold_on(
            "new nodes of the type in the hour, beyond those that went", row["nodes"] - row["gone_nodes"], 10
        ),
        from_threshold_on("those / the usual", row["nodes"] / usual if usual else 1e6, 10),
    ]


RULE: Final = HourlyRule(
    name=_NAME,
    title="Burst of new nodes",
    severity=PAGE,
    about="`fleet`",
    holds="10 or more new nodes of a type in a cluster, beyond as many as went in the hour or the one before, and ten times the usual"
    " ([`provisioning_bursts`](views.md#provisioning_bursts))",
    runbook="ledger_rules.md#rules-across-jobs",
    yields_to=("empty_group",),
    thresholds={},
    sql=SQL,
    needs="nodes",
    kind="fleet",
    key="",
    operator="nodes",
    finding=finding,
    margins=margins,
)
