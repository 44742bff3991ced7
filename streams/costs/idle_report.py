"""What was paid and did nothing: idle nodes, forgotten ones, use without a job, lost work, idle GPUs inside jobs.

Figures of nodes are those of `trainfare idle`, lost work is that of metric m5. Every text in its SQL is fixed; what a
client chooses is bound as a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.costs.day_parts import MetricRows, Steps, days_in
from streams.costs.idle import left_out_note, left_out_sql
from streams.costs.idle_nodes import (
    ALWAYS_MS,
    MONEY,
    NODES,
    SPAN,
    LookedAt,
    LookedBeside,
    bounds_of,
    cells,
    in_order,
    looked_at,
    looked_beside,
)
from streams.costs.parts import HourSpan
from streams.costs.request import Period

Object = dict[str, Any]

FORGOTTEN: Final = "forgotten_node"
UNATTRIBUTED: Final = "unattributed_use"
_NOTHING: Final = Decimal("0.000000000")
#: The sums are of all jobs, however few are listed.
_LOST: Final = f"""
SELECT * FROM
(
    SELECT l.job_id AS job_id, any(j.owner) AS owner, any(j.team) AS team, sum(l.lost_cost_usd) AS lost_cost_usd,
           sum(l.retry_cost_usd) AS retry_cost_usd, uniqExact(l.attempt) AS attempts, arraySort(groupUniqArray(5)(l.reason)) AS reasons,
           min(l.hour) AS first_hour, max(l.hour) AS last_hour,
           sum(lost_cost_usd) OVER () AS all_lost_cost_usd, sum(retry_cost_usd) OVER () AS all_retry_cost_usd, countIf(lost_cost_usd > 0) OVER () AS all_jobs
    FROM (SELECT * FROM lost_work WHERE {SPAN}) AS l
    LEFT ANY JOIN (SELECT job_id, owner, team FROM jobs FINAL) AS j ON j.job_id = l.job_id
    GROUP BY job_id
)
WHERE lost_cost_usd > 0 ORDER BY lost_cost_usd DESC, job_id LIMIT {{most:UInt64}}"""


class NodeReport(NamedTuple):
    """What takes the balance of nodes."""

    looked: LookedAt
    last_hour: MetricRows
    hour_ms: int  # the end of that hour; 0: there is none
    note: str  # what is left out


class JobReport(NamedTuple):
    """What does without it."""

    beside: LookedBeside
    lost: list[Object]
    has_nodes: bool


def node_steps(level: str, span: HourSpan, as_of_ms: int) -> Steps[NodeReport]:
    """Ask what nodes cost and what of it was idle.

    Args:
        level: By which nodes are listed.
        span: The hours.
        as_of_ms: The instant of the figures: the last full hour before it says what is idle per hour.
    """
    known = yield from days_in(span)
    hour_ms = as_of_ms // HOUR_MS * HOUR_MS
    hour = HourSpan(max(hour_ms - HOUR_MS, 0), hour_ms or 1)
    looked = yield from looked_at(level, span, known, hour if _is_within(hour, span) else None)
    last = looked.last_hour
    if not _is_within(hour, span):
        last = yield from cells((level,), Period.all, hour)
    (left_out,) = (yield left_out_sql(span)).records()
    return NodeReport(looked, last, hour_ms, left_out_note(left_out).removeprefix("trainfare: ").strip())


def job_steps(span: HourSpan, limit: int) -> Steps[JobReport]:
    """Ask for all else: nothing of it waits for what `node_steps` asks."""
    beside = yield from looked_beside(span)
    lost = (yield _LOST, {**bounds_of(span), "most": limit}).records()
    (nodes,) = (yield NODES, {}).records()
    return JobReport(beside, lost, bool(nodes["hours"]))


def report_of(nodes: NodeReport, jobs: JobReport, limit: int) -> Object:
    """The report: lists are cut at the limit, sums are of all."""
    lost_sums = {
        name: jobs.lost[0][f"all_{name}"] if jobs.lost else nothing
        for name, nothing in (("lost_cost_usd", _NOTHING), ("retry_cost_usd", _NOTHING), ("jobs", 0))
    }
    lost = [{name: value for name, value in job.items() if not name.startswith("all_")} for job in jobs.lost]
    rows = nodes.looked.cells.records()
    found = in_order([*nodes.looked.findings, *jobs.beside.findings]).records()
    forgotten, unattributed = runs(found, FORGOTTEN), runs(found, UNATTRIBUTED)
    others = [row for row in found if row["finding"] not in (FORGOTTEN, UNATTRIBUTED)]
    hour_ms, last = nodes.hour_ms, nodes.last_hour
    return {
        "sums": {
            **_sums(rows, MONEY),
            "forgotten_cost_usd": _sum(forgotten, "cost_usd"),
            **lost_sums,
        },
        "last_hour": {"begin_ms": hour_ms - HOUR_MS, **_sums(last.records(), MONEY)} if hour_ms else None,
        "rows": rows[:limit],
        "forgotten": forgotten[:limit],
        "unattributed": unattributed[:limit],
        "lost": lost,
        "hollow": jobs.beside.hollow[:limit],
        "findings": others[:limit],
        "left_out": {
            "rows": max(len(rows) - limit, 0),
            "forgotten": max(len(forgotten) - limit, 0),
            "unattributed": max(len(unattributed) - limit, 0),
            "lost": max(int(lost_sums["jobs"]) - len(lost), 0),
            "findings": max(len(others) - limit, 0),
        },
        "has_nodes": jobs.has_nodes,
        "note": nodes.note,
    }


def _is_within(hour: HourSpan, span: HourSpan) -> bool:
    return (span.begin_ms or 0) <= (hour.begin_ms or 0) and (hour.end_ms or 0) <= (span.end_ms or ALWAYS_MS)


def runs(found: Iterable[Mapping[str, Any]], finding: str) -> list[Object]:
    """Findings of single days by name, the dearest first: all days and dollars, and since when without a gap."""
    by_name: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in found:
        if row["finding"] == finding:
            by_name.setdefault((row["name"], row["team"]), []).append(row)
    made = []
    for (name, team), rows in by_name.items():
        days = sorted({date.fromisoformat(row["period"]) for row in rows})
        since = days[-1]
        for day in reversed(days[:-1]):
            if (since - day).days > 1:
                break
            since = day
        made.append(
            {
                "name": name,
                "team": team,
                "since": since.isoformat(),
                "until": days[-1].isoformat(),
                "days": len(days),
                "cost_usd": _sum(rows, "cost_usd"),
                "detail": max(rows, key=lambda row: row["period"])["detail"],
            }
        )
    return sorted(made, key=lambda each: (-each["cost_usd"], each["name"], each["team"]))


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> Decimal:
    return sum((row[name] for row in rows), _NOTHING)


def _sums(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Object:
    return {name: _sum(rows, name) for name in names}
