"""What the nodes cost, what of it nobody used, and what to look at: for `trainfare idle` and the page alike.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.durations import DATETIME_END_MS, DAY_MS, HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.calendar import PLAIN, Calendar
from streams.costs.bursts import BURSTS
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
ALWAYS_MS: Final = DATETIME_END_MS - HOUR_MS
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
_CELL: Final = "cell"
_LAST: Final = "last_hour"
#: Findings of single days, what GPU-time kinds of nodes had and jobs paid for, and what cells of a level cost in the span and in one hour of it:
#: netting a day takes most of the time, so all are made of one scan.
#: A node is forgotten as the view `forgotten_nodes` has it, by all hours of the days that begin in the span.
_LOOKED_AT: Final = f"""
SELECT
    multiIf(grouping(kind) = 0, '{_NODE_TYPE}', grouping(of_last) = 0, '{_LAST}', grouping(cell) = 0, '{_CELL}',
        grouping(team) = 0, 'unattributed_use', 'forgotten_node') AS finding,
    toString(day) AS period,
    multiIf(finding = '{_NODE_TYPE}', kind, finding IN ('{_CELL}', '{_LAST}'), cell, node) AS subject,
    if(finding = 'forgotten_node', argMaxIf(b.team, b.hour, b.of_day), team) AS whose,
    multiIf(finding = 'forgotten_node', sumIf(b.node_cost_usd, b.of_day), finding = 'unattributed_use', sumIf(b.unattributed_cost_usd, b.of_span),
        sumIf(b.node_cost_usd, b.of_span)) AS cost_usd,
    if(finding = 'forgotten_node',
        concat('nothing ran on it; ', argMaxIf(b.instance_type, b.hour, b.of_day), ' ', argMaxIf(b.gpu_type, b.hour, b.of_day)),
        concat(toString(round(sumIf(b.unattributed_gpu_ms, b.of_span) / 3600000, 3)), ' GPU-hours of work without a job')) AS detail,
    sumIf(b.used_gpu_milli_ms, b.of_span) AS used,
    sumIf(toInt128(b.gpu_milli_ms), b.of_span) AS held,
    sumIf(b.paid_ms, b.of_span) AS sum_paid_ms,
    {", ".join(f"sumIf(b.{name}, b.of_span) AS sum_{name}" for name in MONEY)}
FROM
(
    SELECT *, toDate(hour) AS day, if(instance_type = '', gpu_type, instance_type) AS kind, concat(<level>, '') AS cell, {SPAN} AS of_span, {_DAY_BEGINS} AS of_day,
        hour >= fromUnixTimestamp64Milli({{last_from:Int64}}, 'UTC') AND hour < fromUnixTimestamp64Milli({{last_to:Int64}}, 'UTC') AS of_last
    FROM <hours>
    WHERE hour >= fromUnixTimestamp64Milli({{from:Int64}}, 'UTC') AND hour < fromUnixTimestamp64Milli({{days_to:Int64}}, 'UTC')
) AS b
GROUP BY GROUPING SETS ((day, node), (day, node, team), (kind), (cell), (cell, of_last))
HAVING multiIf(
    finding = 'forgotten_node', sumIf(b.paid_ms, b.of_day) = 86400000 AND minIf(b.gpu_milli_ms, b.of_day) > 0
        AND sumIf(b.used_gpu_milli_ms, b.of_day) = 0 AND sumIf(b.unattributed_gpu_ms, b.of_day) = 0,
    finding = 'unattributed_use', cost_usd > 0,
    finding = '{_LAST}', of_last,
    finding = '{_CELL}', countIf(b.of_span) > 0,
    1)
"""
_BURST_FINDINGS: Final = f"""
SELECT 'provisioning_burst' AS finding, toString(hour) AS period, instance_type AS name, '' AS team, NULL AS cost_usd,
       concat(toString(nodes), ' new nodes in ', cluster, ', usual: ', toString(round(usual_nodes, 2))) AS detail
FROM ({BURSTS})"""
#: What the dearest of them wastes comes first.
_HOLLOW: Final = f"""
SELECT h.job_id AS job_id, any(j.owner) AS owner, any(j.team) AS team, any(j.state) AS state, h.gpu_cost_usd AS gpu_cost_usd,
       h.sampled_ms / 3600000 AS sampled_gpu_h, h.productive_ms / h.sampled_ms AS productive_ratio, h.first_hour AS first_hour, h.last_hour AS last_hour,
       concat(toString(round(100 * h.productive_ms / h.sampled_ms, 1)), ' % of ', toString(round(h.sampled_ms / 3600000, 1)), ' GPU-hours') AS detail
FROM ({HOLLOW_JOBS}) AS h
LEFT ANY JOIN (SELECT job_id, owner, team, state FROM jobs FINAL) AS j ON j.job_id = h.job_id
GROUP BY ALL ORDER BY toFloat64(gpu_cost_usd) * (1 - productive_ratio) DESC, job_id"""


class LookedAt(NamedTuple):
    """What one reading of a span's nodes has found."""

    cells: MetricRows  # of the level, as `cells` has them
    findings: list[Row]
    last_hour: MetricRows  # the cells of one hour


class LookedBeside(NamedTuple):
    """What is found without netting nodes."""

    findings: list[Row]
    #: Jobs that work less than half of their GPUs' time, with what that is in words.
    hollow: list[dict[str, Any]]


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
    cells = _by_idle_cost(found.names[:width], added(found.rows, width), first)
    return MetricRows(cells.names, starts.named(cells.rows[:limit]))


def _by_idle_cost(keys: tuple[str, ...], rows: list[Row], first: int) -> MetricRows:
    """Cells with hours and shares, what was most idle first; `first`: so many of their keys come before that."""
    width = len(keys)
    idle_at = width + 1 + MONEY.index("idle_cost_usd")
    rows.sort(key=lambda row: (row[:first], -row[idle_at], row[first:width]))
    return MetricRows((*keys, "paid_node_h", *MONEY, "idle_ratio"), [_finished(row, width) for row in rows])


def findings(span: HourSpan, limit: int = ALL_ROWS, known: KeptDays | None = None) -> Steps[MetricRows]:
    """Ask what to look at, the dearest first; `known` are the days of the span, if the caller has them."""
    days = known or (yield from days_in(span))
    found = yield from looked_at(LEVELS[0], span, days)
    beside = yield from looked_beside(span)
    made = in_order([*found.findings, *beside.findings])
    return MetricRows(made.names, made.rows[:limit])


def in_order(rows: list[Row]) -> MetricRows:
    """Findings, the greatest cost first; what has none comes last."""
    rows = sorted(rows, key=lambda row: (row[4] is None, -(row[4] or 0), *row[:4]))
    return MetricRows(("finding", "period", "name", "team", "cost_usd", "detail"), rows)


def looked_at(
    level: str, span: HourSpan, known: KeptDays, last_hour: HourSpan | None = None
) -> Steps[LookedAt]:
    """Ask what nodes cost by a level and what to look at of them, of one reading.

    Args:
        level: One of `LEVELS`.
        span: The hours.
        known: Its days.
        last_hour: An hour of the span.
    """
    last: Parameters = bounds_of(last_hour) if last_hour else {"from": 0, "to": 0}
    found = yield from in_parts(span, known, lambda part, source: _looked_at(level, part, source, last))
    rows: list[Row] = []
    others: dict[str, list[Row]] = {_NODE_TYPE: [], _CELL: [], _LAST: []}
    for row in found.rows:
        finding, subject, cost_usd, (used, held, *sums) = row[0], row[2], row[4], row[6:]
        if finding in others:
            others[finding].append(
                (subject, used, held, cost_usd) if finding == _NODE_TYPE else (subject, *sums)
            )
        else:
            rows.append(row[:6])
    rows += [_half_full(*each) for each in added(others[_NODE_TYPE], 1) if 0 < each[2] >= 2 * each[1]]
    return LookedAt(
        _by_idle_cost((level,), added(others[_CELL], 1), 0),
        rows,
        _by_idle_cost((level,), added(others[_LAST], 1), 0),
    )


def looked_beside(span: HourSpan) -> Steps[LookedBeside]:
    """Ask what else to look at: bursts of nodes, and jobs that work less than half of their GPUs' time."""
    rows: list[Row] = [*(yield _BURST_FINDINGS, bounds_of(span)).rows()]
    hollow = (yield _HOLLOW, bounds_of(span)).records()
    rows += [
        ("job_under_half", "all", job["job_id"], job["team"], job["gpu_cost_usd"], job.pop("detail"))
        for job in hollow
    ]
    return LookedBeside(rows, hollow)


def _looked_at(level: str, part: HourSpan, source: str, last: Parameters) -> Statement:
    bounds = bounds_of(part)
    days_to = -(-(part.end_ms or ALWAYS_MS) // DAY_MS) * DAY_MS
    sql = _LOOKED_AT.replace("<hours>", source).replace("<level>", level)
    return sql, {**bounds, "days_to": days_to, "last_from": last["from"], "last_to": last["to"]}


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
