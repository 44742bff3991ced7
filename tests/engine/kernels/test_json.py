"""Pieces of the scanner of JSON against what is obvious: strings byte by byte, numbers as fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas import decode, wire, wire_types
from streams.engine.kernels import gpu_slots
from streams.engine.kernels.arrays import U8
from streams.engine.kernels.gpu_keys import NAMES, PLANES, REQUIRED, key_of
from streams.engine.kernels.json_number import quotient, scan_integer, scan_number
from streams.engine.kernels.json_scan import (
    after_space,
    first_bytes,
    hash_bytes,
    is_null,
    same_bytes,
    string_end,
)

# What is looked at twice or more, so that each comes often beside the others.
near = st.lists(st.sampled_from([34, 92, 31, 32, 0, 127, 128, 255, 65, 66, 93, 162, 220]), max_size=40).map(
    bytes
)
texts = st.one_of(st.binary(max_size=40), near)


def raw(data: bytes) -> U8:
    return np.frombuffer(data, np.uint8)


def naive_string_end(data: bytes, at: int, stop: int) -> int:
    for place in range(at, stop):
        if data[place] == 34:
            return place
        if not 32 <= data[place] < 128 or data[place] == 92:
            return -1
    return -1


@given(texts, st.integers(0, 9), st.integers(0, 9))
def test_a_string_ends_at_its_quote(data: bytes, at: int, behind: int) -> None:
    stop = max(len(data) - behind, 0)
    assert string_end(raw(data), at, stop) == naive_string_end(data, at, stop)


def test_each_byte_in_each_lane() -> None:
    for byte in range(256):
        for lane in range(9):
            data = b"a" * lane + bytes([byte]) + b'a"' + b"~" * 9
            assert string_end(raw(data), 0, len(data)) == naive_string_end(data, 0, len(data)), (byte, lane)


@given(texts, st.integers(0, 30), st.integers(0, 8))
def test_bytes_as_a_word(data: bytes, at: int, count: int) -> None:
    at = min(at, len(data))
    want = data[at : at + count].ljust(8, b"\0")
    assert first_bytes(raw(data), at, count) == int.from_bytes(want, "little", signed=True)


@given(texts, texts, st.integers(0, 9))
def test_equal_bytes_have_equal_hashes(one: bytes, other: bytes, at: int) -> None:
    pair = raw(b"x" * at + one + other), raw(one)
    assert same_bytes(pair[0], at, pair[1], 0, len(one))
    assert hash_bytes(pair[0], at, len(one), 5) == hash_bytes(pair[1], 0, len(one), 5)
    size = min(len(one), len(other))
    assert same_bytes(raw(one), 0, raw(other), 0, size) == (one[:size] == other[:size])


def test_hashes_of_names_that_count_up_differ() -> None:
    names = [f"node-{k:05}" for k in range(3_000)]
    cells = {int(hash_bytes(raw(name.encode()), 0, len(name), 2**61 + 7)) & 0xFFFF for name in names}
    # Of 3,000 drawn at random into 65,536 cells, 2,932 are expected.
    assert len(cells) > 2_850


@given(st.text("0123456789 -.eE", max_size=22), st.sampled_from(["", ",", "]", " "]))
@example("0.1", "")
@example("123456789012345678", ",")
@example("1234567890123456789", ",")
def test_a_number_is_what_it_says_or_left_alone(text: str, behind: str) -> None:
    data = raw((text + behind).encode())
    value, end = scan_number(data, 0, len(text))
    if end >= 0:
        shown = text[:end]
        assert float(value).hex() == float(Fraction(shown)).hex()
        assert msgspec.json.decode(shown, type=float) == value
    whole, end = scan_integer(data, 0, len(text))
    if end >= 0:
        assert text[:end] == str(whole)


@given(st.floats(0, 2.0**53), st.integers(0, 17))
def test_numbers_as_programs_write_them(value: float, digits: int) -> None:
    for text in (repr(value), f"{value:.{digits}f}", f"{value:.{digits}e}"):
        data = raw(text.encode())
        found, end = scan_number(data, 0, len(data))
        assert end in (-1, len(data))
        assert end == -1 or float(found).hex() == float(text).hex()
    if value == 0 or 1e-5 <= value < 1e6:
        text = repr(value)
        assert scan_number(raw(text.encode()), 0, len(text)) == (value, len(text))


def test_quotients_are_rounded_once_or_in_doubt() -> None:
    rng, doubts = random.Random(5), 0
    for turn in range(6_000):
        mantissa, ten = rng.randrange(2**53, 10**18), rng.randrange(23)
        if turn % 2:  # beside the middle of two doubles
            value = rng.random()
            ten = rng.randrange(16, 19)
            mantissa = int(
                (Fraction(value) + Fraction(math.nextafter(value, 2))) / 2 * 10**ten
            ) + rng.randrange(2)
        if 2**53 < mantissa <= 10**18:
            found = quotient(mantissa, ten)
            doubts += found < 0
            assert found in (float(Fraction(mantissa, 10**ten)), -1.0), (mantissa, ten)
    assert doubts < 100


def test_a_middle_is_in_doubt() -> None:
    assert quotient(2**53 + 1, 0) == -1.0
    assert quotient((2**53 + 1) * 10, 1) == -1.0
    assert quotient(2**53 + 2, 0) == 2.0**53 + 2


def test_every_key_is_known_and_no_other() -> None:
    fields = set(wire.GpuWire.__struct_fields__)
    assert fields - set(NAMES) == {"specversion"}
    assert set(NAMES) <= fields
    for code, name in enumerate(NAMES):
        data = raw(name.encode() + b'":')
        assert key_of(data, 0, len(name)) == code
        for other in (name[:-1], name + "x", name.upper(), " " + name, name[1:], name[::-1]):
            if other not in NAMES:
                assert key_of(raw(other.encode()), 0, len(other)) == -1


def test_what_is_required_and_what_a_plane_is() -> None:
    fields = msgspec.structs.fields(wire.GpuWire)
    required = {field.name for field in fields if field.required}
    assert {NAMES[code] for code in range(len(NAMES)) if REQUIRED >> code & 1} == required
    assert all(("ratio" in name, "mib" in name, "_w" in name).count(True) == 1 for name in NAMES[:PLANES])


def test_the_limits_are_those_of_the_wire_type() -> None:
    assert wire_types.MIN_TIME_MS == gpu_slots.MIN_TIME_MS
    assert wire_types.MAX_SAMPLE_MS == gpu_slots.MAX_SAMPLE_MS
    assert wire_types.MAX_GPUS == gpu_slots.MAX_GPUS
    assert wire_types.MAX_NAME_BYTES == gpu_slots.MAX_NAME_BYTES
    assert decode.RECORD_MAX_BYTES == gpu_slots.MAX_BYTES


@pytest.mark.parametrize(
    ("text", "end"), [("", 0), (" \t\r\n", 4), ("  a", 2), ("\x0b", 0), ("\x00", 0), ("\xa0", 0)]
)
def test_white_space_is_four_characters(text: str, end: int) -> None:
    data = raw(text.encode("latin-1"))
    assert after_space(data, 0, len(data)) == end


@pytest.mark.parametrize(
    ("text", "stop", "is_it"), [("null", 4, True), ("nulll", 5, True), ("nul", 3, False), ("null", 3, False)]
)
def test_null_is_four_letters(text: str, stop: int, is_it: bool) -> None:
    assert is_null(raw(text.encode()), 0, stop) is is_it
