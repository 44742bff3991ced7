-- `node_balance` by hour, each the sum of its minutes, with the dimensions of `node_hours`. `used_gpu_milli_ms` is the
-- GPU-time that jobs pay for, `unattributed_gpu_ms` the productive time of samples without a job, `unattributed_cost_usd`
-- what that is of the idle cost: a part of it, not more beside it. It has the hours of which minutes are kept. Days that
-- have ended are read as they are [kept ready](tables.md#balance_hours), the others, of which the newest is always one, as
-- [`netted_hours`](#netted_hours) has them, in the memory that it says: a store that no worker has served keeps no day
-- ready. `trainfare idle`, `costs --metric m3` and `chargeback`, and `GET /api/v1/costs`, ask for whole days at a time and
-- add these up, exactly: what they need does not grow with the time, and is enough for 1,500 nodes.

-- That a day is not among others would prune nothing, so the days to net are said one by one; and their first as well, which
-- goes on to the hours that are joined.

SELECT
    b.hour AS hour,
    b.node AS node,
    b.team AS team,
    b.cloud AS cloud,
    b.region AS region,
    b.zone AS zone,
    b.cluster AS cluster,
    b.account AS account,
    b.instance_type AS instance_type,
    b.gpu_type AS gpu_type,
    b.purchase AS purchase,
    b.paid_ms AS paid_ms,
    b.gpu_milli_ms AS gpu_milli_ms,
    b.unpriced_gpu_milli_ms AS unpriced_gpu_milli_ms,
    toInt128(b.used_gpu_milli_ms) AS used_gpu_milli_ms,
    b.unattributed_gpu_ms AS unattributed_gpu_ms,
    b.node_cost_usd AS node_cost_usd,
    b.job_cost_usd AS job_cost_usd,
    b.idle_cost_usd AS idle_cost_usd,
    b.unattributed_cost_usd AS unattributed_cost_usd,
    b.overcommitted_cost_usd AS overcommitted_cost_usd,
    b.overcommitted AS overcommitted
FROM balance_hours AS b FINAL
WHERE b.node != '' AND (toDate(b.hour), b.stamp) IN (SELECT day, stamp FROM balance_days WHERE is_kept)
UNION ALL
SELECT
    n.hour AS hour,
    n.node AS node,
    n.team AS team,
    n.cloud AS cloud,
    n.region AS region,
    n.zone AS zone,
    n.cluster AS cluster,
    n.account AS account,
    n.instance_type AS instance_type,
    n.gpu_type AS gpu_type,
    n.purchase AS purchase,
    n.paid_ms AS paid_ms,
    n.gpu_milli_ms AS gpu_milli_ms,
    n.unpriced_gpu_milli_ms AS unpriced_gpu_milli_ms,
    n.used_gpu_milli_ms AS used_gpu_milli_ms,
    n.unattributed_gpu_ms AS unattributed_gpu_ms,
    n.node_cost_usd AS node_cost_usd,
    n.job_cost_usd AS job_cost_usd,
    n.idle_cost_usd AS idle_cost_usd,
    n.unattributed_cost_usd AS unattributed_cost_usd,
    n.overcommitted_cost_usd AS overcommitted_cost_usd,
    n.overcommitted AS overcommitted
FROM netted_hours AS n
WHERE toDate(n.hour) IN (SELECT day FROM netted_days) AND n.hour >= (SELECT toDateTime(min(day), 'UTC') FROM netted_days)
