"""The SQL of the rule `missing_price`: what had no price, by five minutes and by job, and of nodes by hour."""

from __future__ import annotations

from typing import Final

from schemas.events import FLOW_FIELDS, PRICE_FIELDS
from schemas.reserved import USERS_JOBS
from schemas.units import WATT
from streams.engine.rules.missing_price import EVERY_MS

_FROM: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
_TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
_FLOW: Final = tuple(name for name in FLOW_FIELDS if name != "dst_region")
#: What accrues with time has the price fields of the attempt's hour; other rows have the fields of their flow.
FIELDS: Final = ("component", "unit", *PRICE_FIELDS, *(name for name in _FLOW if name not in PRICE_FIELDS))

_BEGIN: Final = f"intDiv(toUnixTimestamp(minute), {EVERY_MS // 1000}) * {EVERY_MS} AS begin_ms"
#: `spans`: since the hour began, where an attempt had several sets of price fields in it; else they are not needed.
#: `lacks`: what is unpriced of it, GPU-time or compute; an hour may have both, under the same price fields.
_HOURS: Final = f"""
SELECT job_id, attempt, hour, {", ".join(PRICE_FIELDS)}, arrayZip(wall_clock_from_ms, wall_clock_until_ms) AS spans, lacks,
    count() OVER (PARTITION BY job_id, attempt, hour, lacks) AS kinds
FROM job_hours FINAL
ARRAY JOIN arrayFilter(c -> c = 'gpu' ? unpriced_gpu_milli_ms > 0 : (compute_cost_usd = 0 OR instance_type = '{WATT}'), ['gpu', 'compute']) AS lacks
WHERE hour >= toStartOfHour({_FROM}) AND hour < {_TO}"""
_HELD: Final = (
    "h.kinds = 1 OR arrayExists(s -> toUnixTimestamp(h.hour) * 1000 + s.1 < m.begin_ms"
    f" + {EVERY_MS} AND toUnixTimestamp(h.hour) * 1000 + s.2 > m.begin_ms, h.spans)"
)


def _rows(component: str, *by: str) -> str:
    return f"""
SELECT {", ".join([*by, "job_id", "attempt", _BEGIN, "component", "unit", *_FLOW])}, sum(quantity) AS amount FROM job_minutes FINAL
PREWHERE minute >= {_FROM} AND minute < {_TO}
WHERE sku = '' AND quantity > 0 AND {component} AND {USERS_JOBS}
GROUP BY ALL"""


def _both() -> str:
    """Return both kinds of rows, with one set of fields."""
    others = FIELDS[2 + len(PRICE_FIELDS) :]
    held_fields = ", ".join(
        [*(f"h.{name} AS {name}" for name in PRICE_FIELDS), *(f"'' AS {name}" for name in others)]
    )
    traffic_fields = ", ".join(
        name if name in _FLOW else f"'' AS {name}" for name in (*PRICE_FIELDS, *others)
    )
    held = _rows("component IN ('gpu', 'compute')", "toStartOfHour(minute) AS hour")
    return f"""
    SELECT m.job_id AS job_id, m.begin_ms AS begin_ms, m.component AS component, m.unit AS unit, {held_fields}, m.amount AS amount
    FROM ({held}) AS m INNER JOIN ({_HOURS}) AS h
        ON h.job_id = m.job_id AND h.attempt = m.attempt AND h.hour = m.hour AND h.lacks = m.component
    WHERE {_HELD}
    UNION ALL
    SELECT job_id, begin_ms, component, unit, {traffic_fields}, amount
    FROM ({_rows("component IN ('network', 'storage')")})"""


_JOBS: Final = "SELECT job_id, team, project FROM jobs FINAL"
_NAMED: Final = ", ".join(f"u.{name} AS {name}" for name in FIELDS)

#: Whether there may be such usage at all: of rows that were written again since, former versions count, so it is cheap.
IS_THERE: Final = f"""
SELECT 1 AS found FROM job_minutes PREWHERE minute >= {_FROM} AND minute < {_TO}
WHERE sku = '' AND quantity > 0 AND component IN ('gpu', 'compute', 'network', 'storage') LIMIT 1
UNION ALL
SELECT 1 AS found FROM node_minutes PREWHERE minute >= {_FROM} AND minute < {_TO} WHERE sku = '' AND quantity > 0 LIMIT 1"""

#: When each kind of usage had no price.
FIVE_MINUTES: Final = f"""
SELECT {_NAMED}, j.team AS team, j.project AS project, groupUniqArray(toInt64(u.begin_ms)) AS begins
FROM ({_both()}) AS u LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = u.job_id GROUP BY ALL"""

#: The jobs of each kind, and how much of it they had.
JOBS: Final = f"""
SELECT {_NAMED}, j.team AS team, j.project AS project, u.job_id AS job_id, sum(u.amount) AS amount
FROM ({_both()}) AS u LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = u.job_id GROUP BY ALL"""

#: Whole hours: what a node is, is known by the hour.
_WHOLE_HOURS: Final = (
    f"minute >= toStartOfHour({_FROM} + INTERVAL 3599 SECOND) AND minute < toStartOfHour({_TO})"
)
_OF_NODE: Final = ", ".join(
    f"h.{name} AS {name}" if name in PRICE_FIELDS else f"'' AS {name}" for name in FIELDS[2:]
)

#: What the time of nodes that no job used lacked, and how much of it, by node and hour.
NODES: Final = f"""
SELECT n.node AS node, toInt64(toUnixTimestamp(n.hour)) * 1000 AS begin_ms, if(n.unit = 'gpu_milli_ms', 'gpu', 'compute') AS component,
    n.unit AS unit, {_OF_NODE}, '' AS team, '' AS project, n.amount AS amount
FROM
(
    SELECT node, toStartOfHour(minute) AS hour, unit, sum(quantity) AS amount FROM node_minutes FINAL
    PREWHERE {_WHOLE_HOURS}
    WHERE sku = '' AND quantity > 0 AND (node, minute) NOT IN (
        SELECT node, minute FROM job_minutes FINAL
        PREWHERE {_WHOLE_HOURS} WHERE node != '' AND quantity > 0 AND component IN ('gpu', 'compute'))
    GROUP BY node, hour, unit
) AS n
INNER JOIN (SELECT * FROM node_hours FINAL) AS h ON h.node = n.node AND h.hour = n.hour"""
