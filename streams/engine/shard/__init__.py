"""One shard of the log: folding batches, ticks between records, checkpoints. `shard` is the entry point."""
