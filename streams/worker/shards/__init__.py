"""The shards that this worker owns: their state beside the engine's, their versions, and the ports around them."""
