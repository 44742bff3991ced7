"""Every codec of Kafka, as aiokafka has it, within a bound."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import pytest
from aiokafka import codec
from aiokafka.errors import CorruptRecordException

from streams.gzip_members import TooLargeError
from streams.transport.codecs import decode

ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    1: codec.gzip_encode,
    2: codec.snappy_encode,
    3: codec.lz4_encode,
    4: codec.zstd_encode,
}
MIB = 2**20


@pytest.mark.parametrize("number", ENCODERS)
@pytest.mark.parametrize("size", [1, 1_000, 70_000, 3 * MIB])
def test_what_aiokafka_wrote_is_read(number: int, size: int) -> None:
    data = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    packed = ENCODERS[number](data)
    assert decode(number, packed) == data
    assert decode(number, packed, size) == data
    with pytest.raises(TooLargeError):
        decode(number, packed, size - 1)


def test_snappy_without_blocks_and_frames_one_after_another() -> None:
    data = bytes(range(256)) * 100
    assert decode(2, codec.snappy_encode(data, xerial_compatible=False)) == data
    for number in (1, 4):
        assert decode(number, ENCODERS[number](data) + ENCODERS[number](b"more")) == data + b"more"


@pytest.mark.parametrize("number", ENCODERS)
def test_a_bomb_is_given_up_within_its_bound(number: int) -> None:
    """A hundred times what it may hold; libraries that allocate by themselves are bounded by the same code."""
    bomb = ENCODERS[number](bytes(200 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decode(number, bomb, 2 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB + len(bomb)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_cut_off_is_no_batch(number: int) -> None:
    packed = ENCODERS[number](random.Random(1).randbytes(100_000))
    for cut in (1, 1_000):
        with pytest.raises(CorruptRecordException):
            decode(number, packed[:-cut])
