"""`team_burn`: the jobs that a record matches cost more in an hour than its limit, in dollars or as a share of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas.reserved import USERS_JOBS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, short, unheeded
from streams.engine.rules.hourly_sql import COST, END, IN, JOBS
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.wording import hours_sql, named, nano_of

_NAME: Final = "team_burn"
#: What an alert is about: the first of these that the record matches on.
_KINDS: Final = ("experiment", "project", "team", "owner")


def sql_of(fields: Sequence[str]) -> str:
    """Return what matching jobs and all jobs cost in each hour; the values of `fields` are parameters of their names."""
    match = " AND ".join(f"j.{name} = {{{name}:String}}" for name in fields) or "1"
    return f"""SELECT {END}, sumIf(h.cost, {match}) AS usd, sum(h.cost) AS fleet_usd
FROM (SELECT hour, job_id, {COST} AS cost FROM job_hours FINAL WHERE {IN} AND {USERS_JOBS}) AS h
LEFT ANY JOIN ({JOBS}) AS j ON j.job_id = h.job_id GROUP BY hour"""


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far what the jobs of a record cost in an hour is from its limits; a limit of 0 is not looked at."""
    spent, fleet = float(row["usd"]), float(row["fleet_usd"])
    values = {"usd_per_hour": spent, "share_ratio": spent / fleet if fleet else 0.0}
    whats = {
        "usd_per_hour": "dollars in the hour (above)",
        "share_ratio": "share of what all jobs cost (above)",
    }
    return [
        from_threshold_on(whats[name], value if of[name] else None, of[name], way)
        for way, (name, value) in enumerate(values.items())
    ]


def finding(
    of: LedgerSettings, record: str, match: Mapping[str, str], row: Mapping[str, Any]
) -> LedgerFinding | None:
    """Return what a record's row says; None: it is within the limits."""
    most, share = of.thresholds["usd_per_hour"], of.thresholds["share_ratio"]
    kind = next((name for name in _KINDS if name in match), "fleet")
    spent, fleet = float(row["usd"]), float(row["fleet_usd"])
    part = spent / fleet if fleet else 0.0
    if not ((most and spent > most) or (share and part > share)):
        return None
    # What all jobs cost is not the team's to know, unless its limit is a share of it.
    of_all = f", {100 * part:.0f} % of the fleet" if share else ""
    limit = f"{rounded_usd(nano_of(most))}/h" if most and spent > most else f"{100 * share:g} %"
    return LedgerFinding(
        _NAME, of.severity, kind, match.get(kind, ""), row["at_ms"],
        named(f"{kind} ", match.get(kind, ""), f" spent {rounded_usd(nano_of(spent))} in an hour{of_all}; its limit is"
            f" {limit} (rule {short(record)}); shrink or move jobs, or raise it, else {unheeded(nano_of(spent), row['at_ms'])}"),
        hours_sql(" AND ".join(f"h.{each} = {quoted(value)}" for each, value in match.items()) or "1", row),
        part, nano_of(spent), nano_of(spent),
        match.get("owner", ""), match.get("team", ""), match.get("project", ""), margins=(*margins(of.thresholds, row),),
    )  # fmt: skip


RULE: Final = LedgerRule(
    name=_NAME,
    title="Burning above a limit",
    severity=TICKET,
    about="`team`, `owner`, `project`, `experiment`, `fleet`",
    holds="cost more in the hour than `usd_per_hour`, or than `share_ratio` of what all jobs cost; only with a record that"
    " sets one",
    runbook="ledger_rules.md#rules-across-jobs",
    thresholds={
        "usd_per_hour": Threshold(0, 0, 1e9, "dollars in an hour; 0: not looked at"),
        "share_ratio": Threshold(0, 0, 1, "share of what all jobs cost in an hour; 0: not looked at"),
    },
    match_fields=("team", "owner", "project", "experiment"),
    finding=finding,
    margins=margins,
)
