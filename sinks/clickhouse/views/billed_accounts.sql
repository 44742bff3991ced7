-- The account under which each resource was billed most on a day, with corrections: that of what was metered on it, where
-- neither the job nor the node says one.

SELECT day, resource, argMax(account, (s.billed, account)) AS account
FROM
(
    SELECT day, account, resource, sum(d.billed_usd + d.correction_usd) AS billed
    FROM billed_days AS d
    WHERE resource != ''
    GROUP BY day, account, resource
) AS s
GROUP BY day, resource
