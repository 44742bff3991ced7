"""Snapshots of a shard: `writer` writes one, `reader` restores from a chain of them, `compaction` keeps chains short."""
