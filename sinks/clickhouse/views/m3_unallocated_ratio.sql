-- Per day (UTC) the [share of what the nodes cost that nobody known used](cost_metrics.md#idle-time). `idle_cost_usd` and
-- `overcommitted_cost_usd` add up those of each node and minute; `unattributed_usd` is a part of what is idle.
-- `unpriced_usd` values GPU-time without a price. `bill_usd` is what bills say these nodes cost that day in [their
-- accounts](bill_tables.md#node_accounts), with corrections ([`billed_days`](bill_tables.md#billed_days)); null where no line names any of them.

-- GPU-time of nodes without a price is valued at what priced GPU-time cost on average that day, and is added to both sides.
-- A line of a bill counts in the accounts that the node's events say, else in that under which the node was billed most.

SELECT
    day,
    s.node_cost AS node_cost_usd,
    s.idle_cost AS idle_cost_usd,
    s.over_cost AS overcommitted_cost_usd,
    if(n.lines = 0, NULL, CAST(round(n.billed, 9) AS Decimal(38, 9))) AS bill_usd,
    s.unattributed_cost AS unattributed_usd,
    if(s.priced_gpu = 0, 0, toFloat64(s.gpu_cost) * toFloat64(s.unpriced_gpu) / toFloat64(s.priced_gpu)) AS unpriced_usd,
    if(toFloat64(s.node_cost) + unpriced_usd = 0, NULL,
       (toFloat64(s.idle_cost) + unpriced_usd) / (toFloat64(s.node_cost) + unpriced_usd)) AS ratio
FROM
(
    SELECT
        toDate(hour) AS day,
        sum(b.node_cost_usd) AS node_cost,
        sum(b.idle_cost_usd) AS idle_cost,
        sum(b.overcommitted_cost_usd) AS over_cost,
        sum(b.unattributed_cost_usd) AS unattributed_cost,
        sumIf(b.node_cost_usd, b.gpu_milli_ms > 0) AS gpu_cost,
        sum(toInt128(b.unpriced_gpu_milli_ms)) AS unpriced_gpu,
        sum(toInt128(b.gpu_milli_ms - b.unpriced_gpu_milli_ms)) AS priced_gpu
    FROM node_hour_balance AS b
    GROUP BY day
) AS s
LEFT ANY JOIN
(
    SELECT
        d.day AS day,
        sum(d.billed_usd + d.correction_usd) AS billed,
        sum(d.lines + d.correction_lines) AS lines
    FROM billed_days AS d
    INNER JOIN
    (
        SELECT toDate(hour) AS day, node, groupUniqArrayIf(toString(h.account), h.account != '') AS accounts
        FROM node_hours AS h FINAL
        WHERE paid_ms != 0
        GROUP BY day, node
    ) AS o ON o.day = d.day AND o.node = d.resource
    LEFT ANY JOIN billed_accounts AS t ON t.day = d.day AND t.resource = d.resource
    WHERE has(o.accounts, d.account) OR (empty(o.accounts) AND d.account = t.account)
    GROUP BY day
) AS n ON n.day = s.day
