"""The deterministic engine: batches of the log go in; rows, a snapshot and offsets come out.

`shard.shard.Shard` is the entry. It does no I/O and reads no clock; `worker.ingest` drives it.
"""
