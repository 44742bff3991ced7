"""How much of the cost of jobs names who answers for it, over time, and where what does not comes from.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from typing import Any, Final

from schemas.reserved import USERS_JOBS
from streams.calendar import PLAIN, Calendar
from streams.costs.cell_starts import cell_starts
from streams.costs.day_parts import MetricRows, Row, Steps
from streams.costs.idle_nodes import SPAN, bounds_of
from streams.costs.metrics import COSTS
from streams.costs.parts import HourSpan
from streams.costs.request import Period

#: What a job should name; a cost centre is a label, in any of these spellings.
NAMES: Final = ("owner", "team", "project", "cost_centre")
_CENTRES: Final = "cost_centre", "cost_center", "cost-centre", "cost-center", "costcentre", "costcenter"
_CENTRE: Final = f"arrayFirst(each -> each != '', arrayMap(key -> labels[key], {list(_CENTRES)!r}))"
_SUMS: Final = "sum(s.cost_usd) AS cost_usd, " + ", ".join(
    f"sumIf(s.cost_usd, s.{name} != '') AS {name}_usd" for name in NAMES
)
#: Hours are added up before names are looked up: a year has millions of them, of thousands of jobs.
_COSTS: Final = f"""(
    SELECT h.*, j.owner AS owner, j.team AS team, j.project AS project, j.cost_centre AS cost_centre
    FROM (
        SELECT <keys>, {" + ".join(f"sum({name})" for name in COSTS)} AS cost_usd
        FROM job_hours FINAL WHERE {USERS_JOBS} AND {SPAN} GROUP BY <groups> HAVING cost_usd != 0
    ) AS h
    LEFT ANY JOIN (SELECT job_id, owner, team, project, {_CENTRE} AS cost_centre FROM jobs FINAL) AS j ON j.job_id = h.job_id
)"""
_BY_ATTEMPT: Final = _COSTS.replace("<keys>", "job_id, attempt, cluster").replace(
    "<groups>", "job_id, attempt, cluster"
)
#: By what said that the attempt runs, and where: the worst first.
_WORST: Final = f"""
SELECT name, source, cluster, count(DISTINCT c.job_id) AS jobs, sum(c.cost_usd) AS cost_usd, argMax(c.job_id, (c.cost_usd, c.job_id)) AS dearest_job
FROM (
    SELECT job_id, attempt, cluster, cost_usd, [owner, team, project, cost_centre] AS given FROM {_BY_ATTEMPT}
    WHERE owner = '' OR team = '' OR project = '' OR cost_centre = ''
) AS c
ARRAY JOIN arrayFilter((each, has) -> has = '', {list(NAMES)!r}, given) AS name
LEFT ANY JOIN (SELECT job_id, attempt, arrayStringConcat(attempts.sources, ', ') AS source FROM attempts FINAL) AS a
    ON a.job_id = c.job_id AND a.attempt = c.attempt
GROUP BY name, source, cluster ORDER BY indexOf({list(NAMES)!r}, name), cost_usd DESC, source, cluster LIMIT {{most:UInt64}} BY name
"""


def cells(per: Period, span: HourSpan, calendar: Calendar = PLAIN) -> Steps[MetricRows]:
    """Ask for the share of cost with each name, by periods of a calendar.

    Raises:
        WrongUseError: The span has too many periods.
    """
    starts = yield from cell_starts(per, span, calendar, "job_hours")
    costs = _COSTS.replace("<keys>", f"{starts.column}job_id")
    costs = costs.replace("<groups>", ", ".join((*starts.keys, "job_id")))
    first = "".join(f"{key}, " for key in starts.keys)
    last = "GROUP BY period_start ORDER BY period_start" if starts.keys else "HAVING count() > 0"
    found = yield (
        f"SELECT {first}{_SUMS} FROM {costs} AS s {last}",
        bounds_of(starts.span) | starts.parameters,
    )
    width = len(starts.keys)
    rows: list[Row] = [
        (*row[: width + 1], *(_shared(part, row[width]) for part in row[width + 1 :])) for row in found.rows()
    ]
    names = tuple(name.replace("_usd", "_ratio") for name in found.names[width + 1 :])
    return MetricRows((*found.names[: width + 1], *names), starts.named(rows))


def worst(span: HourSpan, limit: int) -> Steps[MetricRows]:
    """Ask where the cost comes from that does not name who answers for it: so many of each name, the dearest first."""
    found = yield _WORST, bounds_of(span) | {"most": limit}
    return MetricRows(found.names, list(found.rows()))


def _shared(part: Any, whole: Any) -> float | None:
    return round(float(part) / float(whole), 6) if whole else None
