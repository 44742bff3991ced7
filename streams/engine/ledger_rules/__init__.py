"""The rules across jobs, judged on the stored ledger: pure functions of totals by minute."""
