"""The deterministic engine: batches of the log go in; rows, a snapshot and offsets come out. No I/O, no clock."""
