"""The hash by which Kafka's default partitioner places a key: 32-bit murmur2, as in the Java client."""

from __future__ import annotations

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import U8

_SEED = 0x9747B28C
_M = 0x5BD1E995
_LOW_32 = 0xFFFFFFFF


@kernel
def murmur2(key: U8) -> int:
    """The hash of the bytes without its sign bit, as partitioners use it."""
    size = key.size
    h = _SEED ^ size
    at = 0
    while at + 4 <= size:
        k = int(key[at]) | int(key[at + 1]) << 8 | int(key[at + 2]) << 16 | int(key[at + 3]) << 24
        k = (k * _M) & _LOW_32
        k ^= k >> 24
        k = (k * _M) & _LOW_32
        h = ((h * _M) & _LOW_32) ^ k
        at += 4
    if at < size:
        for j in range(size - at):
            h ^= int(key[at + j]) << (8 * j)
        h = (h * _M) & _LOW_32
    h ^= h >> 13
    h = (h * _M) & _LOW_32
    return h ^ h >> 15
