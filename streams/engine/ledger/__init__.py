"""From a job's state to priced rows: derivation, accrual and sums. `derive` is the entry point."""
