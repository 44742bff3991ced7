"""One shard of the log: folding, ticks, prices, checkpoints, snapshots and their restore. `shard` is the entry point."""
