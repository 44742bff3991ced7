"""What could be saved, with the evidence: nodes that stand idle, jobs that do not use their GPUs. For `trainfare savings`.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from schemas.counting import how_many
from schemas.reserved import USERS_JOBS
from schemas.units import HOURS_PER_MONTH
from streams.costs.day_parts import MetricRows, Row, Steps
from streams.costs.idle_nodes import SPAN, bounds_of
from streams.costs.idle_nodes import cells as idle_cells
from streams.costs.parts import HourSpan
from streams.costs.request import Period
from streams.costs.unproductive import unproductive_nano

NAMES: Final = ("saving", "name", "team", "usd", "usd_per_month", "evidence")
IDLE_NODES: Final = "idle_nodes"
UNUSED_GPUS: Final = "unused_gpus"
SPOT: Final = "spot_realised"
_EXTENT: Final = "SELECT toInt64(toUnixTimestamp(min(hour))) AS first_s, toInt64(toUnixTimestamp(max(hour))) AS last_s, count() AS hours FROM "
_OF_JOBS: Final = f"(SELECT hour FROM job_hours WHERE {SPAN})"
_OF_ALL: Final = (
    f"(SELECT hour FROM job_hours WHERE {SPAN} UNION ALL SELECT hour FROM node_hours WHERE {SPAN})"
)
#: The jobs of the view `right_sizing`, in whole numbers: the share of what was sampled that did nothing stands for all of it.
_UNUSED: Final = f"""
SELECT h.job_id, any(j.team) AS team, toInt64(sum(reinterpretAsInt64(h.gpu_cost_usd))) AS gpu_nano,
    sum(toInt128(h.sampled_gpu_ms)) AS sampled_ms, sum(toInt128(h.productive_gpu_ms)) AS productive_ms
FROM (SELECT * FROM job_hours FINAL WHERE {USERS_JOBS} AND {SPAN}) AS h
LEFT ANY JOIN (SELECT job_id, team FROM jobs FINAL) AS j ON j.job_id = h.job_id
GROUP BY h.job_id HAVING sampled_ms >= 3600000 AND 2 * productive_ms < sampled_ms
"""
#: Jobs whose last attempt ran on spot, that ended in the span; each with all that it cost.
SPOT_JOBS: Final = f"""
SELECT job_id, any(j.team) AS team
FROM (SELECT job_id, attempt, purchase FROM attempts FINAL) AS a
LEFT ANY JOIN (SELECT job_id, team FROM jobs FINAL) AS j ON j.job_id = a.job_id
WHERE {USERS_JOBS} AND job_id IN (SELECT job_id FROM job_hours FINAL WHERE gpu_milli_ms != 0 GROUP BY job_id HAVING {SPAN.replace("hour", "max(hour)")})
GROUP BY job_id HAVING argMax(a.purchase, a.attempt) = 'spot' ORDER BY job_id LIMIT {{most:UInt64}}
"""


def savings(span: HourSpan, *, of_nodes: bool = True) -> Steps[tuple[list[Row], int]]:
    """Ask for what could be saved in a span, the dearest first, and how many hours of it the ledger has; without `of_nodes` by jobs alone.

    A node that is idle and a job that does not use its GPUs are different time, so the rows add up.
    """
    extent = yield _EXTENT + (_OF_ALL if of_nodes else _OF_JOBS), bounds_of(span)
    first_s, last_s, count = map(_whole, next(iter(extent.rows())))
    hours = (last_s - first_s) // 3_600 + 1 if count else 0
    found: list[Row] = (yield from _idle_nodes(span, hours)) if of_nodes else []
    jobs = yield _UNUSED, bounds_of(span)
    for job_id, team, *sums in jobs.rows():
        gpu_nano, sampled_ms, productive_ms = map(_whole, sums)
        usd = Decimal(unproductive_nano(gpu_nano, sampled_ms, productive_ms) or 0).scaleb(-9)
        said = f"worked {100 * productive_ms / sampled_ms:.1f} % of {sampled_ms / 3_600_000:,.1f} sampled GPU-hours"
        found.append((UNUSED_GPUS, job_id, team, usd, per_month(usd, hours), said))
    found.sort(key=lambda row: (-row[3], *row[:3]))
    return found, hours


def _idle_nodes(span: HourSpan, hours: int) -> Steps[list[Row]]:
    nodes: MetricRows = yield from idle_cells(("team", "cluster", "gpu_type"), Period.all, span)
    found: list[Row] = []
    at = {name: place for place, name in enumerate(nodes.names)}
    for row in nodes.rows:
        usd = row[at["idle_cost_usd"]]
        if usd > 0:
            name = ", ".join(row[at[each]] for each in ("cluster", "gpu_type") if row[at[each]])
            said = f"{100 * row[at['idle_ratio']]:.1f} % of {row[at['node_cost_usd']]:,.2f} USD that nodes cost, in {row[at['paid_node_h']]:,.1f} node-hours"
            found.append((IDLE_NODES, name, row[at["team"]], usd, per_month(usd, hours), said))
    return found


def spot_rows(sums: Mapping[str, tuple[int, int, int]], hours: int) -> list[Row]:
    """A row for each team of what its jobs on spot saved and lost by preemptions, nano-dollars, and how many they are."""
    rows: list[Row] = []
    for team, (saved, lost, count) in sorted(sums.items(), key=lambda each: (-each[1][0], each[0])):
        usd = Decimal(saved).scaleb(-9)
        said = f"{how_many(count, 'job')} on spot, beside the on-demand price; preemptions cost {Decimal(lost).scaleb(-9):,.2f} USD of it"
        rows.append((SPOT, "", team, usd, per_month(usd, hours), said))
    return rows


def _whole(cell: object) -> int:
    return int(str(cell))


def per_month(usd: Decimal, hours: int) -> Decimal | None:
    """Dollars of so many hours as those of a month of 730 hours, rounded half to even to a nano-dollar; None: of no hour."""
    if not hours:
        return None
    nano = int(usd.scaleb(9)) * HOURS_PER_MONTH
    whole, rest = divmod(nano, hours)
    return Decimal(whole + (2 * rest + whole % 2 > hours)).scaleb(-9)
