"""The shards that this worker owns, from assignment to revocation. `shard_manager` is the entry point."""
