"""The engine: shards that fold log batches into books and give out rows, snapshots and offsets."""
