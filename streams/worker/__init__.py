"""The I/O around the shards: restoring, feeding, storing and committing them, and the prices that all of them use.

It must not hold arithmetic of the meter: that is `streams.engine`.
"""
