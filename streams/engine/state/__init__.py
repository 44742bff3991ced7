"""What a shard remembers: jobs, attempts, nodes, amounts, and what of them no snapshot has yet."""
