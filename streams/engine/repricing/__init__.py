"""What a newer price book changes: which jobs and nodes look up prices that differ, and are derived again."""
