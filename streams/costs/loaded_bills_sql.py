"""The SQL of the bills that were loaded and the months that are closed, which commands ask for: plain text that loads no library."""

from __future__ import annotations

from typing import Final

CLOSED: Final = """
SELECT formatDateTime(month, '%Y-%m') AS name, manifest, signature, key_id FROM closed_months FINAL ORDER BY name
"""
#: The bills of files, and what each comes to in dollars, lines in other currencies included.
LOADS_USD: Final = """bill_loads AS l FINAL
LEFT JOIN (
    SELECT load_id, invoice_issuer_name, billing_account_id, billing_period_start, sum(billed_usd) AS converted
    FROM billed_lines WHERE billing_currency != 'USD'
    GROUP BY load_id, invoice_issuer_name, billing_account_id, billing_period_start
) AS c USING (load_id, invoice_issuer_name, billing_account_id, billing_period_start)"""
LOAD_USD: Final = "l.billed_usd + ifNull(c.converted, toDecimal128(0, 18))"
#: All bills that were loaded, for people.
LOADS: Final = f"""
SELECT l.file AS file, l.format AS format, l.status AS status, l.invoice_issuer_name AS invoice_issuer_name,
       l.billing_account_id AS billing_account_id, toDate(l.billing_period_start) AS billing_period_start, l.lines AS lines,
       l.correction_lines AS correction_lines, l.other_currency_lines AS other_currency_lines,
       {LOAD_USD} AS billed_usd, l.time AS loaded, l.load_id AS load_id
FROM {LOADS_USD}
ORDER BY billing_period_start, invoice_issuer_name, billing_account_id, l.time, file, load_id
"""
