"""Computes the partition of a key as Java's default partitioner does."""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2


@lru_cache(maxsize=2**18)
def partition_of(key: bytes, partitions: int) -> int:
    """Murmur2(key) modulo the count, as `DefaultPartitioner` of Kafka's Java client does."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
