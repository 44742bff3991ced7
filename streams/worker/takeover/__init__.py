"""Taking a shard over: claim it, restore it from its snapshots, fence off rows of its former owner."""
