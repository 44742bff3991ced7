"""The shards that this worker owns, from assignment to hand-over. `shard_manager` is the entry."""
