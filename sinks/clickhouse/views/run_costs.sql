-- Everything of one [run](runs.md) that events name by a `run_id`, however often it was submitted: `jobs` and `attempts` of it,
-- when the first one `started`, and the `state` of the last one, `last_job_id`. `lost_cost_usd` is [lost work](cost_metrics.md#lost-work)
-- of all jobs, `lost_ratio` its share of the cost; `retry_cost_usd` the part that is retry overhead: all that was lost before
-- another job of the run followed, and of the last job what its own retries caused.

-- A job that was never paid has no start; it may be the last one all the same only if no other one has.

SELECT
    j.owner AS owner,
    j.team AS team,
    j.run_id AS run_id,
    count() AS jobs,
    sum(j.attempts) AS attempts,
    min(j.started) AS started,
    anyIf(j.job_id, j.place = 1) AS last_job_id,
    anyIf(j.state, j.place = 1) AS state,
    sum(c.cost_usd) AS cost_usd,
    sum(c.lost_cost_usd) AS lost_cost_usd,
    toFloat64(lost_cost_usd) / nullIf(toFloat64(cost_usd), 0) AS lost_ratio,
    sum(if(j.place = 1, r.retry_cost_usd, c.lost_cost_usd)) AS retry_cost_usd
FROM
(
    SELECT job_id, owner, team, run_id, attempts, started, state,
        row_number() OVER (PARTITION BY owner, team, run_id ORDER BY started DESC NULLS LAST, job_id DESC) AS place
    FROM jobs FINAL
    WHERE run_id != '' AND NOT startsWith(job_id, 'trainfare-canary.')
) AS j
LEFT ANY JOIN
(
    SELECT job_id, sum(t.cost_usd) AS cost_usd, sum(t.lost_cost_usd) AS lost_cost_usd FROM attempt_costs AS t GROUP BY job_id
) AS c ON c.job_id = j.job_id
LEFT ANY JOIN
(
    SELECT job_id, sum(toDecimal128(w.retry_cost_usd, 9)) AS retry_cost_usd FROM lost_work AS w GROUP BY job_id
) AS r ON r.job_id = j.job_id
GROUP BY j.owner, j.team, j.run_id
