"""The prices of a shard, and what a newer price book changes: which jobs and nodes look up prices that differ."""
