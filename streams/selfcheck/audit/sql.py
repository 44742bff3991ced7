"""The read-only statements of the audit; each returns a few rows.

ClickHouse computes every sum that it can compute exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.reserved import USERS_JOBS
from schemas.tables import KEYS

#: Limit of rows recomputed in one audit of a worker; the command's audit recomputes all.
ROWS_AT_ONCE: Final = 1_000_000

_MINE: Final = "(empty({shards:Array(UInt64)}) OR has({shards:Array(UInt64)}, shard))"

_HOUR_COST: Final = (
    "arraySum(arrayMap(usd -> toDecimal128(usd, 9), [gpu_cost_usd, compute_cost_usd, network_cost_usd, storage_cost_usd, "
    "license_cost_usd, labor_cost_usd, overhead_cost_usd, compliance_cost_usd]))"
)

BOOKS: Final = f"""
SELECT topic, toInt64(partition) AS partition, first_offset AS first, next_offset AS next, records_in, applied, unattributed,
       duplicate, too_late, dead_lettered, trimmed, toUnixTimestamp64Milli(time) AS time_ms, version
FROM books FINAL WHERE {_MINE} ORDER BY topic, partition"""

LETTERS: Final = f"""
SELECT b.topic AS topic, toInt64(b.partition) AS partition, b.too_late + b.dead_lettered AS refused,
       c.records AS counted, c.stored AS stored, toInt64(d.rows) AS rows
FROM (SELECT * FROM books FINAL WHERE {_MINE}) AS b
LEFT JOIN
(
    SELECT topic, partition, sum(k.records) AS records, sum(k.stored) AS stored
    FROM dead_letter_counts AS k FINAL GROUP BY topic, partition
) AS c ON c.topic = b.topic AND c.partition = b.partition
LEFT JOIN
(
    SELECT l.topic AS topic, l.partition AS partition, count() AS rows
    FROM dead_letters AS l FINAL
    INNER JOIN (SELECT * FROM books FINAL WHERE {_MINE}) AS o ON o.topic = l.topic AND o.partition = l.partition
    WHERE (empty({{shards:Array(UInt64)}}) OR has({{shards:Array(UInt64)}}, toUInt16(l.partition)))
        AND l.offset >= o.first_offset AND l.offset < o.next_offset
    GROUP BY topic, partition
) AS d ON d.topic = b.topic AND d.partition = b.partition
ORDER BY topic, partition"""

# Rows of quantity 0, too: their version shows that the minute was rewritten.
MINUTES: Final = """
SELECT job_id, toInt64(toUnixTimestamp(minute)) AS second, toString(toInt128(sum(toDecimal128(cost_usd, 9) * 1000000000))) AS cost_nano,
       toInt64(countIf(quantity != 0)) AS rows, max(version) AS newest, max(cost_usd) > 999999999 AS capped
FROM job_minutes FINAL
PREWHERE job_id IN {jobs:Array(String)}
    AND minute >= toDateTime({since_s:Int64}, 'UTC') AND minute < toDateTime({until_s:Int64}, 'UTC')
GROUP BY job_id, minute"""

# Users see current rows, as in the views; here every stored row counts.
_RAW: Final = "SETTINGS final = 0"

_NANO: Final = "toInt128(toDecimal128({column}, 9) * 1000000000)"


def _rounded(quantity: str) -> str:
    """Round half to even, in 128 bits, capped at what a Decimal(18, 9) holds."""
    product = f"toInt128({quantity}) * usd_nano"
    whole = f"intDiv({product}, divisor)"
    twice = f"2 * ({product} - {whole} * divisor)"
    up = f"({twice} > divisor OR ({twice} = divisor AND {whole} % 2 = 1))"
    return f"least({whole} + {up}, toInt128(999999999999999999))"


DIVISOR: Final = """multiIf(
        r.unit = 'gpu_milli_ms', toInt128(3600000000) * if(p.per = 'instance_hour', greatest(p.gpus, 1), 1),
        r.unit = 'ms', toInt128(3600000),
        r.unit = 'bytes', if(p.per = 'gb', toInt128(1000000000), bitShiftLeft(toInt128(1), 30)),
        r.unit = 'requests', toInt128(1000),
        r.unit = 'mib_ms', toInt128(1024) * 730 * 3600000,
        toInt128(3600000000))"""


def costs(table: str, *, current: bool) -> str:
    """SQL that recomputes rows of `job_minutes` or `node_minutes`: `current` ones, or all written since a version."""
    lost = "r.lost_quantity" if table == "job_minutes" else "0"
    lost_usd = "r.lost_cost_usd" if table == "job_minutes" else "0"
    name = "r.job_id" if table == "job_minutes" else "r.node"
    final, limit = ("FINAL", "") if current else ("", f"LIMIT {ROWS_AT_ONCE}")
    return f"""
SELECT toInt64(count()) AS rows, toInt64(countIf(is_wrong)) AS wrong, toInt64(countIf(is_impossible)) AS impossible,
       toInt64(countIf(is_unknown)) AS unknown,
       groupArrayIf(3)(concat(name, ' minute ', toString(minute), ' sku ', sku, ' quantity ', toString(quantity), ' at $',
           toString(price_usd), ': stored $', toString(cost_usd), ', is $', toString(toDecimal128(cost, 9) / 1000000000)),
           is_wrong OR is_impossible OR is_unknown) AS examples
FROM
(
    SELECT {name} AS name, r.minute AS minute, r.sku AS sku, r.quantity AS quantity, r.price_usd AS price_usd,
           r.cost_usd AS cost_usd, {_NANO.format(column="r.price_usd")} AS usd_nano, {DIVISOR} AS divisor,
           {lost} AS lost, {_rounded("r.quantity")} AS cost, {_rounded(lost)} AS lost_cost,
           r.sku != '' AND p.per = '' AS is_unknown,
           NOT is_unknown AND (cost != {_NANO.format(column="r.cost_usd")} OR lost_cost != {_NANO.format(column=lost_usd)}) AS is_wrong,
           r.quantity < 0 OR lost < 0 OR lost > r.quantity AS is_impossible
    FROM
    (
        SELECT * FROM {table} {final}
        WHERE {_MINE} AND version > {{since:UInt64}}
        {limit}
    ) AS r
    LEFT ANY JOIN (SELECT sku, effective, per, gpus FROM prices FINAL) AS p
        ON p.sku = r.sku AND p.effective = r.price_effective
)
{_RAW}"""


_ALIKE: Final = {
    "job_minutes": (
        "price_usd, quantity, cost_usd, lost_quantity, lost_cost_usd",
        "concat(job_id, ' minute ', toString(minute), ' version ', toString(version))",
    ),
    "node_minutes": (
        "price_usd, quantity, cost_usd",
        "concat(node, ' minute ', toString(minute), ' version ', toString(version))",
    ),
}


_PART: Final = f"""{_MINE} AND version > {{since:UInt64}}
        AND minute >= toDateTime({{from_s:Int64}}, 'UTC') AND minute < toDateTime({{until_s:Int64}}, 'UTC')"""


def days(table: str) -> str:
    """SQL for how many rows each day (UTC, the second at which it begins) has."""
    return f"""
SELECT toInt64(toUnixTimestamp(toStartOfDay(minute, 'UTC'))) AS day_s, toInt64(count()) AS rows
FROM {table} WHERE {_MINE} AND version > {{since:UInt64}}
GROUP BY day_s ORDER BY day_s
{_RAW}"""


def suspected_twins(table: str) -> str:
    """SQL for how many keys of a span seem to have two different rows of one version: by hashes, in little memory."""
    values, _ = _ALIKE[table]
    return f"""
SELECT toInt64(count()) AS keys
FROM
(
    SELECT 1 FROM {table}
    WHERE {_PART}
    GROUP BY cityHash64({", ".join(KEYS[table])}, version)
    HAVING min(sipHash64({values})) != max(sipHash64({values}))
)
{_RAW}"""


def twins(table: str) -> str:
    """SQL for keys of a span with two different rows of one version, unless a merge has removed one."""
    values, name = _ALIKE[table]
    return f"""
SELECT toInt64(count()) AS keys, groupArray(3)(name) AS examples
FROM
(
    SELECT any({name}) AS name FROM {table}
    WHERE {_PART}
    GROUP BY {", ".join(KEYS[table])}, version
    HAVING uniqExact({values}) > 1
)
{_RAW}"""


# All rows, and apart those of the canary, which the views exclude.
TOTALS: Final = f"""
SELECT toString(a.usd) AS job_costs_usd, toString(b.usd) AS ledger_usd, toString(c.usd) AS hours_usd,
       toString(b.canary_usd) AS canary_ledger_usd, toString(c.canary_usd) AS canary_hours_usd, toInt64(c.canary_jobs) AS canary_jobs
FROM (SELECT sum(cost_usd) AS usd FROM job_costs) AS a,
     (SELECT toDecimal128(sum(cost_usd), 9) AS usd, toDecimal128(sumIf(cost_usd, NOT ({USERS_JOBS})), 9) AS canary_usd
      FROM job_minutes FINAL) AS b,
     (SELECT toDecimal128(sum(h.cost), 9) AS usd, toDecimal128(sumIf(h.cost, NOT ({USERS_JOBS})), 9) AS canary_usd,
             uniqExactIf(h.job_id, NOT ({USERS_JOBS})) AS canary_jobs
      FROM (SELECT job_id, {_HOUR_COST} AS cost FROM job_hours FINAL) AS h) AS c"""

# What the views exclude and no run of the canary can have cost or held, dearest first.
NO_CANARY: Final = f"""
SELECT job_id, toString(sum(h.cost)) AS usd, toInt64(sum(h.held)) AS gpu_milli_ms
FROM (SELECT job_id, {_HOUR_COST} AS cost, gpu_milli_ms AS held FROM job_hours FINAL WHERE NOT ({USERS_JOBS})) AS h
GROUP BY job_id
HAVING toFloat64(sum(h.cost)) * 1e9 > {{most_nano:UInt64}} OR sum(h.held) > {{most_gpu_milli_ms:UInt64}}
ORDER BY sum(h.cost) DESC, job_id LIMIT 20"""

# Where one price applies to a node and all jobs on it, idle time can be computed in two ways.
NODES: Final = """
SELECT node, toString(minute) AS minute, toString(node_cost - job_cost) AS idle_usd, toString(toDecimal128(free, 9)) AS free_usd,
       toInt64(lines) AS rows, abs(toFloat64(node_cost - job_cost) - free) * 1e9 > 0.5 * lines + 0.01 AS wrong
FROM
(
    SELECT node, minute, sum(s.node_cost) AS node_cost, sum(s.job_cost) AS job_cost, sum(s.lines) AS lines,
           uniqExact(s.sku, s.price_effective, s.price_usd) AS prices, any(s.price_usd) AS usd,
           any(if(p.per = 'instance_hour', greatest(p.gpus, 1), 1)) AS gpus,
           toFloat64(sum(s.quantity)) * toFloat64(usd) / (3600000000 * gpus) AS free,
           countIf(s.is_node) AS node_lines
    FROM
    (
        SELECT node, minute, sku, price_effective, price_usd, quantity, cost_usd AS node_cost, toDecimal64(0, 9) AS job_cost,
               1 AS lines, 1 AS is_node
        FROM node_minutes FINAL
        PREWHERE minute >= toDateTime({since_s:Int64}, 'UTC') AND minute < toDateTime({until_s:Int64}, 'UTC')
        WHERE quantity != 0
        UNION ALL
        SELECT node, minute, sku, price_effective, price_usd, -quantity, toDecimal64(0, 9), cost_usd, 1, 0
        FROM job_minutes FINAL
        PREWHERE minute >= toDateTime({since_s:Int64}, 'UTC') AND minute < toDateTime({until_s:Int64}, 'UTC')
            AND component = 'gpu' AND node != ''
        WHERE quantity != 0
    ) AS s
    LEFT ANY JOIN (SELECT sku, effective, per, gpus FROM prices FINAL) AS p ON p.sku = s.sku AND p.effective = s.price_effective
    GROUP BY node, minute
    HAVING prices = 1 AND node_lines > 0
)
ORDER BY wrong DESC, node, minute
LIMIT {most:UInt64}"""

# What a restore of each shard's newest version needs; a retried insert may have left a chunk twice.
SNAPSHOTS: Final = f"""
SELECT toInt64(shard) AS shard, version, any(of_version.parent) AS parent, any(of_version.root) AS root,
       count() = any(of_version.chunks)
       AND xxh3(arrayStringConcat(arrayMap(x -> x.2, arraySort(x -> x.1, groupArray((chunk, part))))))
           = any(of_version.checksum) AS whole
FROM
(
    SELECT shard, version, chunk, any(s.parent) AS parent, any(s.root) AS root,
           any(s.chunks) AS chunks, any(s.checksum) AS checksum, any(s.blob) AS part
    FROM snapshots AS s
    INNER JOIN
    (
        SELECT shard, argMax(root, version) AS newest, if(newest > 0, newest, maxIf(version, parent = 0)) AS base
        FROM snapshots GROUP BY shard
    ) AS b ON b.shard = s.shard
    WHERE {_MINE.replace("shard)", "s.shard)")} AND s.version >= b.base
    GROUP BY shard, version, chunk
) AS of_version
GROUP BY shard, version ORDER BY shard, version DESC"""

SUMS: Final = """
SELECT table_name, toInt64(shard) AS shard, toInt64(month) AS month, quantity, cost_nano, version FROM ledger_sums FINAL"""


def summed(table: str) -> str:
    """SQL that sums each shard's rows of each month; quantities of all units, modulo 2**64."""
    is_gpu = "r.component = 'gpu'" if table == "job_minutes" else "r.unit = 'gpu_milli_ms'"
    gpu = f"toInt64(sumIf(r.quantity, {is_gpu}))"
    return f"""
SELECT toInt64(shard) AS shard, toInt64(toYYYYMM(minute)) AS month, sum(r.quantity) AS quantity,
       toInt64(sum({_NANO.format(column="r.cost_usd")})) AS cost_nano, max(r.version) AS version, {gpu} AS gpu_milli_ms
FROM {table} AS r FINAL GROUP BY shard, month"""


# A capped hour holds less than its minutes cost.
HOURS: Final = f"""
SELECT 'job_hours' AS table_name, toInt64(shard) AS shard, toInt64(toYYYYMM(hour)) AS month, toInt64(0) AS quantity,
       toInt64(sum(arraySum(arrayMap(usd -> {_NANO.format(column="usd")}, costs)))) AS cost_nano,
       if(max(arrayMax(costs)) >= 999999999, toUInt64(-1), max(r.version)) AS version,
       toInt64(sum(r.gpu_milli_ms)) AS gpu_milli_ms
FROM
(
    SELECT shard, hour, version, gpu_milli_ms, [gpu_cost_usd, compute_cost_usd, network_cost_usd, storage_cost_usd, license_cost_usd,
           labor_cost_usd, overhead_cost_usd, compliance_cost_usd] AS costs
    FROM job_hours FINAL
) AS r
GROUP BY shard, month
UNION ALL
SELECT 'node_hours', toInt64(shard), toInt64(toYYYYMM(hour)) AS month, toInt64(0), toInt64(sum({_NANO.format(column="r.cost_usd")})),
       if(max(r.cost_usd) >= 999999999, toUInt64(-1), max(r.version)), toInt64(sum(r.gpu_milli_ms))
FROM node_hours AS r FINAL
GROUP BY shard, month"""

# Of jobs with an open attempt, hours may be written later than attempts; hours made of minutes by an upgrade have no time.
WALL_CLOCK: Final = """
SELECT toInt64(a.shard) AS shard, toInt64(sum(a.ms)) AS attempts_ms, toInt64(sum(h.ms)) AS hours_ms,
       max(greatest(a.version, h.version)) AS version
FROM
(
    SELECT job_id, any(t.shard) AS shard, sum(t.wall_clock_ms) AS ms, max(t.version) AS version
    FROM attempts AS t FINAL GROUP BY job_id HAVING countIf(isNull(t.ended)) = 0
) AS a
LEFT JOIN
(
    SELECT job_id, sum(r.wall_clock_ms) AS ms, max(r.version) AS version, min(r.version) = 0 AS of_minutes
    FROM job_hours AS r FINAL GROUP BY job_id
) AS h ON h.job_id = a.job_id
WHERE a.ms > 0 AND NOT h.of_minutes
GROUP BY shard"""

# Of jobs with an open attempt, or with samples alone, hours may be written later than minutes of usage; hours made of minutes by an
# upgrade count what was stored, and the job's state may have less.
SAMPLED: Final = """
SELECT toInt64(shard) AS shard, month, sum(minutes_ms) AS minutes_ms, sum(hours_ms) AS hours_ms, sum(minutes_productive_ms) AS minutes_productive_ms,
       sum(hours_productive_ms) AS hours_productive_ms, max(version) AS version
FROM
(
    SELECT job_id, any(u.shard) AS shard, toInt64(toYYYYMM(minute)) AS month, sum(u.sampled_gpu_s) * 1000 AS minutes_ms,
           toInt64(0) AS hours_ms, sum(u.productive_gpu_ms) AS minutes_productive_ms, toInt64(0) AS hours_productive_ms, max(u.version) AS version
    FROM job_usage_minutes AS u FINAL GROUP BY job_id, month
    UNION ALL
    SELECT job_id, any(r.shard), toInt64(toYYYYMM(hour)) AS month, toInt64(0), sum(r.sampled_gpu_ms), toInt64(0), sum(r.productive_gpu_ms),
           max(r.version)
    FROM job_hours AS r FINAL GROUP BY job_id, month
)
WHERE job_id IN (SELECT job_id FROM attempts AS t FINAL GROUP BY job_id HAVING countIf(isNull(t.ended)) = 0)
    AND job_id NOT IN (SELECT job_id FROM job_hours AS o FINAL WHERE o.version = 0)
GROUP BY shard, month"""

# Answered from the parts' min-max indexes without reading a row.
NEWEST_MINUTE: Final = f"""
SELECT toInt64(toUnixTimestamp(max(minute))) AS second FROM node_minutes {_RAW}"""


def ledger(table: str, key: Sequence[str], values: Sequence[str]) -> str:
    """SQL for a shard's rows of a span of minutes, including quantity 0; money in nano-dollars."""
    columns = {
        "minute": "toInt64(toUnixTimestamp(minute))",
        "price_effective": "toInt64(toUnixTimestamp64Milli(price_effective))",
        **{name: f"toInt64({_NANO.format(column=name)})" for name in values if name.endswith("_usd")},
    }
    # Distinct aliases: an expression with a column's name would be used in the filter.
    listed = ", ".join(f"{columns.get(name, name)} AS {name}_" for name in (*key, *values))
    return f"""
SELECT {listed}, version AS version_ FROM {table} FINAL
WHERE shard = {{shard:UInt64}}
    AND minute >= toDateTime({{since_s:Int64}}, 'UTC') AND minute < toDateTime({{until_s:Int64}}, 'UTC')"""


def reach(table: str) -> str:
    """SQL for the first and the last minute of a shard's rows, in seconds; 0 and 0 without any."""
    return f"""
SELECT toInt64(toUnixTimestamp(min(minute))) AS first_s, toInt64(toUnixTimestamp(max(minute))) AS last_s
FROM {table} WHERE shard = {{shard:UInt64}} {_RAW}"""


META: Final = "SELECT value FROM meta FINAL WHERE key = {key:String}"

# When each job and node of a shard was first seen.
OLDER: Final = """
SELECT job_id AS name FROM jobs FINAL
WHERE shard = {shard:UInt64} AND toUnixTimestamp64Milli(first_event) < {before_ms:Int64}
UNION ALL
SELECT node FROM node_minutes FINAL WHERE shard = {shard:UInt64} AND quantity != 0
GROUP BY node HAVING toInt64(toUnixTimestamp(min(minute))) * 1000 < {before_ms:Int64}"""
