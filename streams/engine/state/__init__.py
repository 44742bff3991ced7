"""What a shard remembers: jobs, attempts, nodes and amounts, and which parts of them no snapshot includes yet."""
