-- What each attempt paid for in each hour, with its job's dimensions. What was sampled has no price fields of its own: of an
-- hour with several, those with the most GPU-time have it.
CREATE OR REPLACE VIEW cost_hours AS
SELECT
    h.hour AS hour,
    h.job_id AS job_id,
    h.attempt AS attempt,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.labels AS labels,
    h.cloud AS cloud,
    h.region AS region,
    h.zone AS zone,
    h.cluster AS cluster,
    h.account AS account,
    h.instance_type AS instance_type,
    h.gpu_type AS gpu_type,
    h.purchase AS purchase,
    h.wall_clock_ms AS wall_clock_ms,
    h.queued_ms AS queued_ms,
    h.starting_ms AS starting_ms,
    h.gpu_milli_ms AS gpu_milli_ms,
    u.sampled_gpu_ms AS sampled_gpu_ms,
    u.productive_gpu_ms AS productive_gpu_ms,
    h.lost_gpu_milli_ms AS lost_gpu_milli_ms,
    h.unpriced_gpu_milli_ms AS unpriced_gpu_milli_ms,
    h.gpu_cost_usd AS gpu_cost_usd,
    h.compute_cost_usd AS compute_cost_usd,
    h.network_cost_usd AS network_cost_usd,
    h.storage_cost_usd AS storage_cost_usd,
    h.license_cost_usd AS license_cost_usd,
    h.labor_cost_usd AS labor_cost_usd,
    h.overhead_cost_usd AS overhead_cost_usd,
    h.lost_cost_usd AS lost_cost_usd
FROM
(
    SELECT * FROM job_hours FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
        AND (wall_clock_ms != 0 OR queued_ms != 0 OR gpu_milli_ms != 0 OR gpu_cost_usd + compute_cost_usd + network_cost_usd
             + storage_cost_usd + license_cost_usd + labor_cost_usd + overhead_cost_usd != 0)
) AS h
LEFT ANY JOIN
(
    SELECT
        s.job_id AS job_id,
        s.attempt AS attempt,
        s.hour AS hour,
        s.sampled_gpu_ms AS sampled_gpu_ms,
        s.productive_gpu_ms AS productive_gpu_ms,
        w.fields AS fields
    FROM
    (
        SELECT
            m.job_id AS job_id,
            m.attempt AS attempt,
            toStartOfHour(m.minute) AS hour,
            sum(m.sampled_gpu_s) * 1000 AS sampled_gpu_ms,
            sum(m.productive_gpu_ms) AS productive_gpu_ms
        FROM job_usage_minutes AS m FINAL
        WHERE NOT startsWith(m.job_id, 'trainfare-canary.')
        GROUP BY job_id, attempt, hour
    ) AS s
    INNER JOIN
    (
        SELECT
            r.job_id AS job_id,
            r.attempt AS attempt,
            r.hour AS hour,
            argMax((r.cloud, r.region, r.zone, r.cluster, r.account, r.instance_type, r.gpu_type, r.purchase),
                   (r.gpu_milli_ms, r.wall_clock_ms, r.purchase)) AS fields
        FROM job_hours AS r FINAL
        GROUP BY job_id, attempt, hour
    ) AS w ON w.job_id = s.job_id AND w.attempt = s.attempt AND w.hour = s.hour
) AS u ON u.job_id = h.job_id AND u.attempt = h.attempt AND u.hour = h.hour
    AND u.fields = (h.cloud, h.region, h.zone, h.cluster, h.account, h.instance_type, h.gpu_type, h.purchase)
LEFT ANY JOIN
(
    SELECT job_id, owner, team, project, experiment, labels FROM jobs FINAL
) AS j ON j.job_id = h.job_id;
