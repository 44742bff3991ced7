-- What the energy of jobs stands for, by hour and region of the attempt: `energy_quantity` in thousandths of a watt x ms of what
-- the meter has as [energy](edge.md) (`instance_type` `watt`), `co2e_nano_g` in billionths of a gram of CO2 equivalent, rounded
-- down; null where no intensity of the region is loaded for the hour. It has the hours of which minutes are kept.

SELECT
    e.hour AS hour,
    e.job_id AS job_id,
    e.attempt AS attempt,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    e.region AS region,
    e.quantity AS energy_quantity,
    if(i.has = 1, toNullable(toInt128(intDiv(toInt256(e.quantity) * reinterpretAsInt64(i.g_per_kwh), toInt256('3600000000000')))), NULL) AS co2e_nano_g,
    e.cost_usd AS cost_usd
FROM
(
    SELECT toStartOfHour(m.minute) AS hour, m.job_id AS job_id, m.attempt AS attempt, a.region AS region,
        sum(toInt128(m.quantity)) AS quantity, sum(toDecimal128(m.cost_usd, 9)) AS cost_usd
    FROM (SELECT minute, job_id, attempt, quantity, cost_usd FROM job_minutes FINAL
        WHERE quantity != 0 AND unit = 'instance_milli_ms' AND NOT startsWith(job_id, 'trainfare-canary.')) AS m
    INNER JOIN (SELECT job_id, attempt, region FROM attempts FINAL WHERE instance_type = 'watt') AS a
        ON a.job_id = m.job_id AND a.attempt = m.attempt
    GROUP BY hour, job_id, attempt, region
) AS e
LEFT ANY JOIN (SELECT job_id, owner, team, project FROM jobs FINAL) AS j ON j.job_id = e.job_id
LEFT ANY JOIN (SELECT region, hour, g_per_kwh, 1 AS has FROM carbon_intensities FINAL) AS i ON i.region = e.region AND i.hour = e.hour
