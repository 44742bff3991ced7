"""Audits while the meter runs: every record counted once, every row costs quantity x price, totals agree."""
