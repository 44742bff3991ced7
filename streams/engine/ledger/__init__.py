"""From a job's state to priced rows: what is derived, accrued and summed. `derive` is the entry."""
