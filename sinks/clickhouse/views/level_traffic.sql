-- Traffic under the names of its jobs, as far back as minutes are kept: what m6 and m7 are made of. A job's traffic stands
-- once under each of its five names; price fields are not known of it.

SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    t.component AS component,
    t.path AS path,
    t.direction AS direction,
    t.region AS src_region,
    t.dst_region AS dst_region,
    t.op AS op,
    t.storage_class AS storage_class,
    t.unit AS unit,
    sum(t.quantity) AS quantity,
    sum(t.cost_usd) AS cost_usd
FROM
(
    SELECT job_id, component, path, direction, region, dst_region, op, storage_class, unit,
        sum(toInt128(m.quantity)) AS quantity, sum(toDecimal128(m.cost_usd, 9)) AS cost_usd
    FROM job_minutes AS m FINAL
    PREWHERE component IN ('network', 'storage') AND NOT startsWith(job_id, 'trainfare-canary.')
    WHERE m.quantity != 0
    GROUP BY job_id, component, path, direction, region, dst_region, op, storage_class, unit
) AS t
LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = t.job_id
ARRAY JOIN
[
    ('job', t.job_id), ('owner', j.owner), ('team', j.team), ('project', j.project), ('experiment', j.experiment)
] AS level_name
GROUP BY level, name, component, path, direction, src_region, dst_region, op, storage_class, unit
