-- What a job [was billed](bills.md#billed-cost-of-a-job) in a month beside what it was metered of GPUs, compute, network
-- and storage. `variance_usd` is the effective cost less what was metered and a bill covers; `causes` has the dollars of
-- each cause and sums to it. `provisional`: no bill covers `only_metered_usd` yet.

SELECT
    toDate(b.month) AS month,
    b.job_id AS job_id,
    toDecimal128(b.metered_usd, 9) AS metered_usd,
    toDecimal128(b.only_metered_usd, 9) AS only_metered_usd,
    b.billed_usd AS billed_usd,
    b.effective_usd AS effective_usd,
    b.list_usd AS list_usd,
    b.effective_usd - b.metered_usd + b.only_metered_usd AS variance_usd,
    b.causes AS causes,
    b.only_metered_usd != 0 AS provisional
FROM job_bills AS b FINAL
WHERE (b.month, b.allocation) IN (SELECT month, allocation FROM allocated_months FINAL)
