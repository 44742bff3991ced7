"""What a newer price book changes: which jobs and nodes ask for the prices that differ, and are derived again."""
