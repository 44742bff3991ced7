"""gzip within a limit: all members and nothing else, and no more of a bomb than the limit."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.gzip_members import GzipError, TooLargeError, unpacked

PACKED = gzip.compress(b"content")
MIB = 2**20
NOISE = random.Random(1).randbytes(100_000)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_members_are_read_one_after_the_other(contents: list[bytes]) -> None:
    packed = b"".join(map(gzip.compress, contents))
    whole = b"".join(contents)
    assert unpacked(packed, len(whole)) == whole
    if whole:
        with pytest.raises(TooLargeError):
            unpacked(packed, len(whole) - 1)


@pytest.mark.parametrize("size", [0, 1, 2**14 - 1, 2**14, 2**14 + 1, 70_000])
def test_a_member_may_end_anywhere_within_a_step(size: int) -> None:
    """Noise does not become smaller: `size` bytes need as many, and a header."""
    for length in range(max(size - 40, 0), size + 1):
        content = NOISE[:length]
        assert unpacked(gzip.compress(content) + gzip.compress(b"more"), MIB) == content + b"more"


def test_every_cut_is_said() -> None:
    packed = gzip.compress(NOISE[:100])
    for size in range(1, len(packed)):
        with pytest.raises(GzipError, match="its end is missing"):
            unpacked(packed[:size], MIB)


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (PACKED + b"\0", "its end is missing"),
        (PACKED + b"garbage", "incorrect header"),
        (b"content", "incorrect header"),
        (zlib.compress(b"content"), "incorrect header"),
        (PACKED[:-8] + bytes(8), "incorrect data check"),
        (PACKED[:-4] + bytes(4), "incorrect length check"),
    ],
    ids=["a byte more", "garbage after it", "no gzip", "zlib", "wrong checksum", "wrong length"],
)
def test_what_is_no_gzip_or_more_than_it_is_refused(packed: bytes, words: str) -> None:
    with pytest.raises(GzipError, match=words):
        unpacked(packed, MIB)


def test_no_more_is_unpacked_of_a_bomb_than_the_limit() -> None:
    """300 MiB in one member, and in many that are small by themselves."""
    one = gzip.compress(bytes(300 * MIB))
    many = gzip.compress(bytes(MIB)) * 300
    for bomb in (one, many):
        tracemalloc.start()
        try:
            with pytest.raises(TooLargeError):
                unpacked(bomb, 2 * MIB)
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()


def test_what_follows_members_is_not_copied_for_each_of_them() -> None:
    """200,000 empty members: 4 MiB that would be copied as often take minutes."""
    empty = gzip.compress(b"")
    assert unpacked(empty * 200_000, MIB) == b""
