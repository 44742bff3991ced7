"""The SQL that a month is charged from: what was metered by resource and day, idle time, and lines of bills.

Every text in it is fixed; what a user chooses is bound as a parameter. Large answers come in pages, for a worker that has
the store open limits each.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from schemas.reserved import USERS_JOBS
from streams.costs.kept_jobs import KeptJobs

#: Rows of a page: with long names these are some 30 MB.
PAGE_ROWS: Final = 100_000


class BillCost(StrEnum):
    """Which cost of a line is charged."""

    billed = "billed"
    effective = "effective"
    list = "list"


_AMOUNTS: Final = {
    BillCost.billed: "billed_usd",
    BillCost.effective: "effective_usd",
    BillCost.list: "list_usd",
}
#: A purchase of commitments pays for usage that bears its cost itself, but where the cash is asked for.
_COMMITMENT: Final = (
    "l.charge_category = 'Purchase' AND (l.commitment_discount_id != '' OR l.effective_cost = 0)"
)
_OF_MONTH: Final = "l.billing_period_start >= {month:String} AND l.billing_period_start < {month_end:String}"
_SPAN: Final = (
    "TIME >= {first:String} AND TIME < {until:String} "
    "AND (empty({days:Array(Int64)}) OR has({days:Array(Int64)}, toInt64(toDate(TIME))))"
)
#: What the statements have in common, by the word that stands for it in them.
_PARTS: Final = {
    "<users>": USERS_JOBS,
    "<minutes of span>": _SPAN.replace("TIME", "minute"),
    "<hours of span>": _SPAN.replace("TIME", "hour"),
    "<sums>": """toInt64(sumIf(cost_usd, component IN ('gpu', 'compute', 'network', 'storage')) * 1000000000) AS usd_nano,
    toInt64(toInt128(sumIf(quantity, component = 'gpu'))) AS gpu_milli_ms,
    toInt64(sumIf(cost_usd, component = 'license') * 1000000000) AS license_nano,
    toInt64(sumIf(cost_usd, component = 'labor') * 1000000000) AS labor_nano,
    toInt64(sumIf(cost_usd, component IN ('overhead', 'compliance')) * 1000000000) AS overhead_nano""",
    "<of key>": """GROUP BY job_id, attempt, day, node
HAVING (job_id, attempt, day, node) > ({job:String}, {attempt:Int64}, {day:Int64}, {node:String})""",
    # In order of the key, so that a page goes on where the one before it ended.
    "<page>": """HAVING (job_id, attempt, day, node) > ({job:String}, {attempt:Int64}, {day:Int64}, {node:String})
ORDER BY job_id, attempt, day, node LIMIT {most:UInt64}""",
    "<known jobs>": """(
    SELECT job_id FROM job_hours WHERE hour >= {first:String} AND hour < {until:String}
    UNION DISTINCT
    SELECT l.tags['trainfare_job'] FROM billed_lines AS l WHERE <of month>)""",
    # As in `billed_days`: a charge of more than 62 days stands on its first one.
    "<charge days>": """SELECT DISTINCT l.account AS account, toString(l.provider_name) AS provider,
        toInt64(toDate(l.charge_period_start)) AS first_day, toInt64(toDate(l.charge_period_end - 1)) AS end_day,
        range(toUInt64(first_day), toUInt64(if(end_day - first_day >= 62, first_day, end_day)) + 1) AS days
    FROM billed_lines AS l WHERE isNotNull(l.billed_usd) AND""",
    "<of month>": _OF_MONTH,
    "<commitment>": f"({_COMMITMENT})",
}


def _filled(statement: str) -> str:
    for word, part in _PARTS.items():
        statement = statement.replace(word, part)
    return statement


_OF_MINUTES: Final = _filled("""SELECT job_id, attempt, toInt64(toDate(minute)) AS day, node, <sums>
FROM job_minutes FINAL
PREWHERE REST
WHERE quantity != 0 AND <users> AND <minutes of span> AND job_id >= {job:String}
<of key>""")
_OF_DAYS: Final = _filled("""SELECT job_id, attempt, toInt64(toDate(d.day)) AS day, node, <sums>
FROM DAYS AS d
WHERE (empty({days:Array(Int64)}) OR has({days:Array(Int64)}, toInt64(toDate(d.day)))) AND job_id >= {job:String}
<of key>""")
#: What each attempt was metered by day in a month whose minutes were dropped: no node is known.
METERED_BY_HOUR: Final = _filled("""
SELECT job_id, attempt, toInt64(toDate(hour)) AS day, '' AS node,
    toInt64(sum(gpu_cost_usd + compute_cost_usd + network_cost_usd + storage_cost_usd) * 1000000000) AS usd_nano,
    sum(h.gpu_milli_ms) AS gpu_milli_ms,
    toInt64(sum(license_cost_usd) * 1000000000) AS license_nano,
    toInt64(sum(labor_cost_usd) * 1000000000) AS labor_nano,
    toInt64(sum(overhead_cost_usd + compliance_cost_usd) * 1000000000) AS overhead_nano
FROM job_hours AS h FINAL
WHERE <users> AND <hours of span> AND job_id >= {job:String}
GROUP BY job_id, attempt, day, node
<page>
""")
#: Idle time by node and day, with what the node was.
IDLE: Final = _filled("""
SELECT toInt64(toDate(hour)) AS day, node, account, cloud, cluster, gpu_type,
    toInt64(sum(b.idle_cost_usd) * 1000000000) AS usd_nano,
    toInt64(sum(b.overcommitted_cost_usd) * 1000000000) AS overcommitted_nano
FROM <node hours> AS b
WHERE <hours of span>
GROUP BY day, node, account, cloud, cluster, gpu_type
ORDER BY day, node
""")
#: Names and the resource of jobs that a month is about; `LEVELS` are those asked for.
JOBS: Final = _filled("""
SELECT job_id, labels['resource_id'] AS resource, LEVELS
FROM jobs FINAL
WHERE job_id IN <known jobs> AND job_id > {job:String}
ORDER BY job_id LIMIT {most:UInt64}
""")
ATTEMPTS: Final = _filled("""
SELECT job_id, attempt, account, cloud
FROM attempts FINAL
WHERE job_id IN <known jobs> AND (job_id, attempt) > ({job:String}, {attempt:Int64})
ORDER BY job_id, attempt LIMIT {most:UInt64}
""")
_BILLS: Final = _filled("""
SELECT load_id, max(l.line) AS last_line, countIf(isNotNull(l.billed_usd)) AS lines,
    maxIf(length(splitByChar('.', toString(assumeNotNull(l.AMOUNT)))[2]), isNotNull(l.billed_usd)) AS places,
    countIf(isNotNull(l.billed_usd) AND <commitment>) AS commitments,
    sumIf(assumeNotNull(l.billed_usd), isNotNull(l.billed_usd) AND <commitment>) AS commitments_usd,
    sumIf(assumeNotNull(l.billed_usd), isNotNull(l.billed_usd) AND NOT <commitment>) AS billed_usd,
    countIf(isNotNull(l.billed_usd) AND l.AMOUNT != 0) AS with_amount
FROM billed_lines AS l WHERE <of month> GROUP BY load_id ORDER BY load_id
""")
#: What is billed in other currencies: with the days of the rates, and apart from it what has no rate.
NOT_IN_DOLLARS: Final = _filled("""
SELECT billing_currency, isNotNull(l.billed_usd) AS is_rated, count() AS lines, sum(l.billed_cost) AS amount,
    sum(assumeNotNull(l.billed_usd)) AS amount_usd,
    toString(min(l.rate_day)) AS first_day, toString(max(l.rate_day)) AS last_day, countIf(isNull(l.rate_day)) AS of_invoice
FROM billed_lines AS l WHERE <of month> AND l.billing_currency != 'USD'
GROUP BY billing_currency, is_rated ORDER BY billing_currency
""")
#: The day of the last rate of a currency before a day, however old it is.
NEWEST_RATE: Final = """
SELECT toString(toDate(max(day))) AS rate_day FROM fx_rates FINAL
WHERE currency = {currency:String} AND day < {until:String} HAVING count() > 0
"""
_LINES: Final = _filled("""
SELECT l.billing_account_id, l.account, toString(l.provider_name), toString(l.service_name), l.resource,
    if(l.tags['trainfare_node'] = '', l.tags['trainfare_job'], '') AS job,
    l.charge_category = 'Usage' AND NOT l.is_correction AS is_usage,
    l.charge_category IN ('Tax', 'Credit', 'Adjustment') OR l.is_correction OR l.AMOUNT < 0 AS is_adjusting,
    toInt64(toUnixTimestamp(l.charge_period_start)) AS start_s, toInt64(toUnixTimestamp(l.charge_period_end)) AS end_s,
    assumeNotNull(l.AMOUNT) AS amount, assumeNotNull(l.billed_usd) AS billed,
    multiIf(
        l.is_correction OR l.charge_period_end <= l.billing_period_start, 'late_line',
        l.charge_category != 'Usage', lower(toString(l.charge_category)),
        l.commitment_discount_id != '', 'commitment',
        l.list_unit_price = 0 AND l.pricing_quantity > 0, 'tier',
        'usage') AS cause,
    l.sku_id, toString(l.pricing_unit) AS pricing_unit, l.load_id, l.line,
    if(l.charge_category = 'Usage' AND lower(l.commitment_discount_status) = 'unused', l.commitment_discount_id, '') AS unused_of,
    RULE AS rule
FROM billed_lines AS l
WHERE <of month> AND isNotNull(l.billed_usd) AND l.load_id = {load:String} AND l.line >= {from:Int64} AND l.line < {to:Int64}
    AND NOT ({without_commitments:Bool} AND <commitment>)
ORDER BY l.line
""")
#: The teams that own the commitments of a month's lines: as a file says, else the tag `team` of any of these, as in `commitment_hours`.
OWNERS: Final = _filled("""
SELECT b.commitment_id AS commitment_id, if(f.team != '', f.team, b.tagged) AS owner
FROM
(
    SELECT l.commitment_discount_id AS commitment_id, max(if(l.tags['team'] != '', l.tags['team'], l.tags['Team'])) AS tagged
    FROM billed_lines AS l
    WHERE <of month> AND l.commitment_discount_id != '' AND l.charge_category IN ('Usage', 'Purchase')
    GROUP BY commitment_id
) AS b
LEFT ANY JOIN (SELECT commitment_id, team FROM commitments FINAL WHERE is_removed = 0) AS f ON f.commitment_id = b.commitment_id
WHERE owner != ''
""")
#: SKUs that have several list prices in an account; as `unit_prices` of `billed_lines`, which every page would compute anew.
TIERS: Final = _filled("""
SELECT l.billing_account_id, l.account, l.sku_id, toString(l.pricing_unit) AS pricing_unit
FROM billed_lines AS l WHERE <of month>
GROUP BY l.billing_account_id, l.account, l.sku_id, pricing_unit
HAVING uniqExact(l.list_unit_price) > 1
""")
#: Days of the month on which a bill has usage of an account, which what was metered gives way to. Late lines are no bill.
COVERED: Final = _filled("""
SELECT DISTINCT toInt64(day) AS day, c.account AS account, c.provider AS provider
FROM
(
    <charge days> l.charge_category = 'Usage' AND NOT l.is_correction AND l.charge_period_end > l.billing_period_start
) AS c
ARRAY JOIN c.days AS day
WHERE day >= {first_day:Int64} AND day < {end_day:Int64}
ORDER BY day, account, provider
""")
#: Days outside the month that its bills are about.
LATE_DAYS: Final = _filled("""
SELECT DISTINCT toInt64(day) AS day
FROM
(
    <charge days> <of month>
) AS c
ARRAY JOIN c.days AS day
WHERE day < {first_day:Int64} OR day >= {end_day:Int64}
ORDER BY day
""")
KEPT: Final = "SELECT toUInt32OrZero(max(value)) AS month FROM meta WHERE key = 'minutes_kept_from'"


def metered_sql(kept: KeptJobs) -> str:
    """The statement for what each attempt was metered on each node and day: of days that are kept, and of minutes; bind `kept.parameters`."""
    parts = [_OF_MINUTES.replace("REST", kept.rest)] if kept.rest else []
    if kept.table:
        parts.append(_OF_DAYS.replace("DAYS", kept.table))
    # In order of the key, so that a page goes on where the one before it ended.
    return f"SELECT * FROM\n(\n{' UNION ALL '.join(parts)}\n)\nORDER BY job_id, attempt, day, node LIMIT {{most:UInt64}}"


def bills_sql(basis: BillCost) -> str:
    """The statement that finds the files of a month's bills, and what they hold."""
    return _BILLS.replace("AMOUNT", _AMOUNTS[basis])


def lines_sql(basis: BillCost, rule: str) -> str:
    """The statement that finds the lines of a page of a file; `rule`: SQL for the place of the rule that takes a line."""
    return _LINES.replace("AMOUNT", _AMOUNTS[basis]).replace("RULE", rule)
