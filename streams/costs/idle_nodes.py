"""What the nodes cost, what of it nobody used, and what to look at: for `trainfare idle` and the page alike.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from schemas.durations import DAY_MS
from schemas.reserved import USERS_JOBS
from streams.calendar import PLAIN, Calendar
from streams.costs.cell_starts import CellStarts, cell_starts
from streams.costs.day_parts import MetricRows, Row, Statement, Steps, added, days_in, in_parts
from streams.costs.kept_days import KeptDays
from streams.costs.parts import HourSpan, Parameters
from streams.costs.request import Period

#: No limit of rows.
ALL_ROWS: Final = 1_000_000
LEVELS: Final = ("team", "cluster", "gpu_type", "node")
MONEY: Final = (
    "node_cost_usd", "job_cost_usd", "idle_cost_usd", "overcommitted_cost_usd", "unattributed_cost_usd"
)  # fmt: skip
ALWAYS_MS: Final = 2**32 * 1000 - 3_600_000
_MILLI_MS_PER_HOUR: Final = 3_600_000_000
SPAN: Final = "hour >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND hour < fromUnixTimestamp64Milli({to:Int64}, 'UTC')"
#: The day of an hour begins in the span.
_DAY_BEGINS: Final = SPAN.replace("hour", "toStartOfDay(hour, 'UTC')")
NODES: Final = "SELECT count() AS hours FROM node_hours"
#: Jobs with at least one sampled GPU-hour in a span and a productive share under one half, as the view `right_sizing` has them of all time.
HOLLOW_JOBS: Final = f"""
    SELECT job_id, sum(toDecimal128(gpu_cost_usd, 9)) AS gpu_cost_usd, sum(toFloat64(sampled_gpu_ms)) AS sampled_ms,
           sum(toFloat64(productive_gpu_ms)) AS productive_ms, min(hour) AS first_hour, max(hour) AS last_hour
    FROM (SELECT * FROM job_hours FINAL WHERE {USERS_JOBS} AND {SPAN})
    GROUP BY job_id HAVING sampled_ms >= 3600000 AND 2 * productive_ms < sampled_ms
"""
_NODE_TYPE: Final = "node_type"
#: Findings of single days, and what GPU-time kinds of nodes had and jobs paid for: netting a day takes most of the time, so all are made of one scan.
#: A node is forgotten as the view `forgotten_nodes` has it, by all hours of the days that begin in the span.
_FINDINGS_OF_DAYS: Final = f"""
SELECT
    multiIf(grouping(kind) = 0, '{_NODE_TYPE}', grouping(team) = 0, 'unattributed_use', 'forgotten_node') AS finding,
    toString(day) AS period,
    if(finding = '{_NODE_TYPE}', kind, node) AS subject,
    if(finding = 'forgotten_node', argMaxIf(b.team, b.hour, b.of_day), team) AS whose,
    multiIf(finding = 'forgotten_node', sumIf(b.node_cost_usd, b.of_day), finding = 'unattributed_use', sumIf(b.unattributed_cost_usd, b.of_span),
        sumIf(b.node_cost_usd, b.of_span)) AS cost_usd,
    if(finding = 'forgotten_node',
        concat('nothing ran on it; ', argMaxIf(b.instance_type, b.hour, b.of_day), ' ', argMaxIf(b.gpu_type, b.hour, b.of_day)),
        concat(toString(round(sumIf(b.unattributed_gpu_ms, b.of_span) / 3600000, 3)), ' GPU-hours of work without a job')) AS detail,
    sumIf(b.used_gpu_milli_ms, b.of_span) AS used,
    sumIf(toInt128(b.gpu_milli_ms), b.of_span) AS held
FROM
(
    SELECT *, toDate(hour) AS day, if(instance_type = '', gpu_type, instance_type) AS kind, {SPAN} AS of_span, {_DAY_BEGINS} AS of_day
    FROM <hours>
    WHERE hour >= fromUnixTimestamp64Milli({{from:Int64}}, 'UTC') AND hour < fromUnixTimestamp64Milli({{days_to:Int64}}, 'UTC')
) AS b
GROUP BY GROUPING SETS ((day, node), (day, node, team), (kind))
HAVING multiIf(
    finding = 'forgotten_node', sumIf(b.paid_ms, b.of_day) = 86400000 AND minIf(b.gpu_milli_ms, b.of_day) > 0
        AND sumIf(b.used_gpu_milli_ms, b.of_day) = 0 AND sumIf(b.unattributed_gpu_ms, b.of_day) = 0,
    finding = 'unattributed_use', cost_usd > 0,
    1)
"""
_FINDINGS_OF_SPAN: Final = f"""
SELECT 'provisioning_burst' AS finding, toString(hour) AS period, instance_type AS name, '' AS team, NULL AS cost_usd,
       concat(toString(nodes), ' new nodes in ', cluster, ', usual: ', toString(round(usual_nodes, 2))) AS detail
FROM provisioning_bursts WHERE {SPAN}
UNION ALL
SELECT 'job_under_half', 'all', h.job_id, any(j.team), h.gpu_cost_usd,
       concat(toString(round(100 * h.productive_ms / h.sampled_ms, 1)), ' % of ', toString(round(h.sampled_ms / 3600000, 1)), ' GPU-hours')
FROM ({HOLLOW_JOBS}) AS h
LEFT ANY JOIN (SELECT job_id, team FROM jobs FINAL) AS j ON j.job_id = h.job_id
GROUP BY ALL
"""


def cells(
    levels: tuple[str, ...],
    per: Period,
    span: HourSpan,
    limit: int = ALL_ROWS,
    calendar: Calendar = PLAIN,
    known: KeptDays | None = None,
) -> Steps[MetricRows]:
    """Ask what nodes cost, by levels and periods of a calendar: what was most idle first.

    `known` are the days of the span, if the caller has them.

    Raises:
        WrongUseError: The span has too many periods.
    """
    starts = yield from cell_starts(per, span, calendar)
    found = yield from in_parts(
        starts.span,
        known or (yield from days_in(starts.span)),
        lambda part, source: (_sql(levels, starts, source), bounds_of(part) | starts.parameters),
    )
    width = len(found.names) - len(MONEY) - 1
    first = width - len(levels)  # 1 with a period
    idle_at = width + 1 + MONEY.index("idle_cost_usd")
    rows = added(found.rows, width)
    rows.sort(key=lambda row: (row[:first], -row[idle_at], row[first:width]))
    names = (*found.names[:width], "paid_node_h", *MONEY, "idle_ratio")
    made = [_finished(row, width) for row in rows[:limit]]
    return MetricRows(names, starts.named(made))


def findings(span: HourSpan, limit: int = ALL_ROWS, known: KeptDays | None = None) -> Steps[MetricRows]:
    """Ask what to look at, the dearest first; `known` are the days of the span, if the caller has them."""
    days = known or (yield from days_in(span))
    found = yield from in_parts(span, days, _findings_of_days)
    rows, types = [], []
    for *row, used, held in found.rows:
        if row[0] == _NODE_TYPE:
            types.append((row[2], used, held, row[4]))
        else:
            rows.append(tuple(row))
    rows += (yield _FINDINGS_OF_SPAN, bounds_of(span)).rows()
    rows += [_half_full(*each) for each in added(types, 1) if 0 < each[2] >= 2 * each[1]]
    # The greatest cost first; what has none comes last.
    rows.sort(key=lambda row: (row[4] is None, -(row[4] or 0), *row[:4]))
    return MetricRows(("finding", "period", "name", "team", "cost_usd", "detail"), rows[:limit])


def _findings_of_days(part: HourSpan, source: str) -> Statement:
    bounds = bounds_of(part)
    days_to = -(-(part.end_ms or ALWAYS_MS) // DAY_MS) * DAY_MS
    return _FINDINGS_OF_DAYS.replace("<hours>", source), {**bounds, "days_to": days_to}


def _half_full(name: str, used: int, held: int, cost_usd: Decimal) -> Row:
    shares = (
        f"{100 * used / held:.1f}".removesuffix(".0"),
        f"{held / _MILLI_MS_PER_HOUR:,.1f}".removesuffix(".0"),
    )
    return ("node_type_half_full", "all", name, "", cost_usd, "{} % of {} GPU-hours".format(*shares))


def bounds_of(span: HourSpan) -> Parameters:
    """What `SPAN` refers to."""
    return {"from": span.begin_ms or 0, "to": span.end_ms or ALWAYS_MS}


def _sql(levels: tuple[str, ...], starts: CellStarts, source: str) -> str:
    """The statement; only names of fixed lists go into it, and the table that has the hours."""
    names = ", ".join(levels)
    return f"""
SELECT {starts.column}{names}, sum(paid_ms) AS paid_ms,
       {", ".join(f"sum({name}) AS {name}" for name in MONEY)}
FROM {source} AS b WHERE {SPAN}
GROUP BY {", ".join((*starts.keys, names))}
"""


def _finished(row: Row, width: int) -> Row:
    """A row with hours instead of ms, and the share of cost that was idle."""
    paid_ms, *money = row[width:]
    sums = dict(zip(MONEY, money, strict=True))
    cost, idle_cost = float(sums["node_cost_usd"]), float(sums["idle_cost_usd"])
    ratio = round(idle_cost / cost, 6) if cost else None
    return (*row[:width], Decimal(paid_ms // 3_600).scaleb(-3), *money, ratio)
