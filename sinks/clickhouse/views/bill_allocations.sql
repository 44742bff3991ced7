-- What each line of a bill [puts on each job](bills.md#billed-cost-of-a-job), on `idle` time of a cluster and GPU type, or
-- leaves `unallocated`, as an account, provider and service that no job used, `unused`, as what a commitment of a `team` cost without being used, or `shared`, as a team's share by a [rule](shared_lines.md);
-- `how` it found them: by its `resource`, by the `tag` trainfare_job, by its `account`, which credits and taxes follow, or by the `rule` of this name. The parts of a line sum to it, in each of its costs. As of the last [`trainfare bills
-- allocate`](bills.md#billed-cost-of-a-job).

SELECT
    toDate(p.month) AS month,
    p.load_id AS load_id,
    p.line AS line,
    p.kind AS kind,
    p.job_id AS job_id,
    p.cluster AS cluster,
    p.gpu_type AS gpu_type,
    p.account AS account,
    p.provider AS provider,
    p.service AS service,
    p.how AS how,
    p.team AS team,
    p.rule AS rule,
    sumIf(p.usd, p.cost = 'billed') AS billed_usd,
    sumIf(p.usd, p.cost = 'effective') AS effective_usd,
    sumIf(p.usd, p.cost = 'list') AS list_usd
FROM bill_parts AS p FINAL
WHERE (p.month, p.allocation) IN (SELECT month, allocation FROM allocated_months FINAL)
GROUP BY month, load_id, line, kind, job_id, cluster, gpu_type, account, provider, service, how, team, rule
