-- What [commitments of a file](commitments.md) cost, hour by hour up to the newest hour of the ledger, and what jobs used of
-- them: `used_quantity` of `quantity`, in thousandths of a GPU x ms; of a savings plan in nano-dollars of metered cost.
-- `used_usd` and `unused_usd` sum to `cost_usd`, and this over all hours to the purchase, to the nano-dollar.
-- `matched_quantity` is what it could have been used for: all that jobs had of what it is for.

-- GPU-time goes to the commitment with the most match fields, of equal ones to the one that begins first, then to the smaller
-- id; so none is used twice. A savings plan takes dollars, at the prices of the ledger. A use is (match fields, GPU-time,
-- nano-dollars), an item (id, kind, provider, team, cost, quantity, whether it is of dollars, match fields).

SELECT
    hour,
    item.1 AS commitment_id,
    item.2 AS kind,
    item.3 AS provider,
    item.4 AS team,
    toDecimal128(toDecimal256(item.5, 9) / 1000000000, 9) AS cost_usd,
    -- As much of the cost as was used of the quantity, rounded down.
    toDecimal128(toDecimal256(intDiv(toInt256(item.5) * taken, greatest(item.6, 1)), 9) / 1000000000, 9) AS used_usd,
    cost_usd - used_usd AS unused_usd,
    item.6 AS quantity,
    taken AS used_quantity,
    matched AS matched_quantity,
    if(item.7 = 1, 'nano_usd', 'gpu_milli_ms') AS unit
FROM
(
    SELECT
        hour,
        items,
        uses,
        arrayMap(item -> arrayMap(use -> arrayAll((want, has) -> want = '' OR want = has, item.8, use.1), uses), items) AS masks,
        arrayMap((item, mask) -> arraySum(arrayMap((use, m) -> m * if(item.7 = 1, use.3, use.2), uses, mask)), items, masks) AS wanted,
        arrayFold(
            (acc, item, mask) -> arrayMap(
                available -> arrayMap(
                    take -> (
                        -- What is left of each use, as GPU-time; for dollars as many as were taken, rounded up.
                        arrayMap(
                            (left, part, use) -> if(
                                item.7 = 1,
                                if(use.3 = 0, left, greatest(toInt64(0), left - toInt64(intDiv(toInt128(part) * use.2 + use.3 - 1, toInt128(greatest(use.3, 1)))))),
                                left - part),
                            acc.1, take, uses),
                        arrayPushBack(acc.2, toInt64(arraySum(take)))),
                    [arrayMap(
                        (part, upto) -> greatest(toInt64(0), least(part, item.6 - (upto - part))),
                        available, arrayCumSum(available))])[1],
                [arrayMap(
                    (left, m, use) -> if(
                        m = 0, toInt64(0),
                        if(item.7 = 1, toInt64(intDiv(toInt128(use.3) * left, toInt128(greatest(use.2, 1)))), left)),
                    acc.1, mask, uses)])[1],
            items, masks,
            (arrayMap(use -> use.2, uses), CAST([], 'Array(Int64)'))).2 AS used
    FROM
    (
        SELECT
            hour,
            arraySort(
                item -> (countEqual(item.8, ''), item.9, item.1),
                groupArray((commitment_id, kind, provider, team, cost_nano, toInt64(most), is_usd, fields, begins))) AS items
        FROM
        (
            SELECT
                from_time + toIntervalHour(number) AS hour,
                commitment_id, kind, provider, team, from_time AS begins,
                toUInt8(kind = 'savings_plan') AS is_usd,
                if(kind = 'savings_plan', reinterpretAsInt64(usd_per_hour), gpu_milli * 3600000) AS most,
                [cloud, region, zone, cluster, account, instance_type, lower(gpu_type), purchase] AS fields,
                dateDiff('hour', from_time, to_time) AS hours,
                toInt256(toDecimal256(cost_usd, 9) * 1000000000) AS all_nano,
                toInt128(intDiv(all_nano * (number + 1), hours) - intDiv(all_nano * number, hours)) AS cost_nano
            FROM
            (
                SELECT *, least(to_time, (SELECT max(hour) + 3600 FROM job_hours)) AS until
                FROM commitments FINAL
                WHERE is_removed = 0
            )
            ARRAY JOIN range(toUInt64(greatest(0, dateDiff('hour', from_time, until)))) AS number
        )
        GROUP BY hour
    ) AS c
    LEFT JOIN
    (
        SELECT hour, groupArray((fields, gpu, nano)) AS uses
        FROM
        (
            SELECT
                hour,
                [cloud, region, zone, cluster, account, instance_type, lower(gpu_type), purchase] AS fields,
                sum(h.gpu) AS gpu,
                sum(h.nano) AS nano
            FROM
            (
                -- Few mixtures of names: texts are made of these, not of millions of rows.
                SELECT hour, cloud, region, zone, cluster, account, instance_type, gpu_type, purchase,
                    sum(gpu_milli_ms) AS gpu, sum(reinterpretAsInt64(gpu_cost_usd)) AS nano
                FROM job_hours FINAL
                WHERE NOT startsWith(job_id, 'trainfare-canary.') AND gpu_milli_ms > 0
                    AND hour >= (SELECT min(from_time) FROM commitments) AND hour < (SELECT max(to_time) FROM commitments)
                GROUP BY hour, cloud, region, zone, cluster, account, instance_type, gpu_type, purchase
            ) AS h
            GROUP BY hour, fields
            ORDER BY hour, fields
        )
        GROUP BY hour
    ) AS u ON u.hour = c.hour
)
ARRAY JOIN items AS item, used AS taken, wanted AS matched
