"""Takeover of a shard: check ownership, restore from snapshots, fence rows of the former owner."""
