"""Runs that somebody has planned and that have not begun: what they will cost in the rest of a month, by whom they are for.

Every text in its SQL is fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.costs.day_parts import Steps
from streams.costs.parts import names_by_level
from streams.costs.request import JOB_LEVELS

#: So many plans are read; more stand in no forecast that anybody could check.
_PLANS_MAX: Final = 10_000
#: Planned rates in force that name one run; those that recur are of evenings or weekends, not of a run.
_PLANS: Final = f"""SELECT name, match, planned_usd_per_hour AS usd_per_hour,
    toUnixTimestamp64Milli(begins) AS begins_ms, toUnixTimestamp64Milli(until) AS until_ms
FROM controls FINAL
WHERE kind = 'planned' AND (name, offset) IN (SELECT name, max(offset) FROM controls WHERE kind = 'planned' GROUP BY name)
    AND NOT removed AND fault = '' AND planned_usd_per_hour > 0 AND mapContains(match, 'job_id') AND NOT match(value, '"(weekdays|hours)"')
ORDER BY name LIMIT {_PLANS_MAX}"""
_JOBS: Final = f"""SELECT job_id, {", ".join(JOB_LEVELS)}, isNotNull(started) AS has_begun
FROM jobs FINAL WHERE job_id IN {{jobs:Array(String)}}"""


class _Plan(NamedTuple):
    begins_ms: int
    until_ms: int
    usd_per_hour: Decimal


def planned_steps(
    by: str, where: Sequence[tuple[str, str]], begin_ms: int, end_ms: int
) -> Steps[dict[str, Decimal]]:
    """Ask for the plans in force; what the runs that have not begun will cost in [begin_ms, end_ms), by the names of a level."""
    rows = (yield _PLANS, {}).records()
    if not rows:
        return {}
    plans: dict[str, list[_Plan]] = defaultdict(list)
    fields: dict[str, dict[str, str]] = {}
    for row in rows:
        match = dict(row["match"])
        job = match["job_id"]
        fields[job] = fields.get(job, {}) | match
        plans[job].append(
            _Plan(
                max(int(row["begins_ms"] or 0), begin_ms),
                min(int(row["until_ms"] or end_ms), end_ms),
                Decimal(str(row["usd_per_hour"])),
            )
        )
    known = {row["job_id"]: row for row in (yield _JOBS, {"jobs": sorted(plans)}).records()}
    found: dict[str, Decimal] = defaultdict(Decimal)
    named = names_by_level(where)
    for job, each in plans.items():
        about: Mapping[str, Any] = known.get(job, fields[job])
        usd = _cost(each)
        if (
            usd
            and not known.get(job, {}).get("has_begun")
            and all(about.get(level) in names for level, names in named.items())
        ):
            found[str(about.get(by) or "")] += usd
    return dict(found)


def _cost(plans: Sequence[_Plan]) -> Decimal:
    """What a run costs by its plans: where several hold, the one with the smallest name, which is the first."""
    usd_ms = Decimal(0)
    edges = sorted({edge for plan in plans for edge in (plan.begins_ms, plan.until_ms)})
    for begin_ms, end_ms in pairwise(edges):
        holds = (plan for plan in plans if plan.begins_ms <= begin_ms and end_ms <= plan.until_ms)
        if (plan := next(holds, None)) is not None:
            usd_ms += plan.usd_per_hour * (end_ms - begin_ms)
    return usd_ms / HOUR_MS
