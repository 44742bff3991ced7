"""When a request has arrived: judged at every size that it may have so far."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.web.accept_filter import BODY_AWAITED_BYTES, HEADER_MAX_BYTES, awaited_bytes

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /api/v1/events HTTP/1.1\r\nHost: localhost\r\n"


def post(length: int) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % length


def test_a_header_is_awaited_to_its_end() -> None:
    for size in range(1, len(GET)):
        assert awaited_bytes(GET[:size]) == size + 1
    assert awaited_bytes(GET) == 0


def test_a_body_is_awaited_at_once() -> None:
    for size in range(10):
        assert awaited_bytes(post(10) + b" " * size) == len(post(10)) + 10
    assert awaited_bytes(post(10) + b" " * 10) == 0


def test_of_a_large_body_a_part_is_enough() -> None:
    large = post(4 * 2**20)
    assert awaited_bytes(large) == len(large) + BODY_AWAITED_BYTES
    assert awaited_bytes(large + b" " * BODY_AWAITED_BYTES) == 0


def test_chunks_are_awaited_to_the_last_or_until_they_are_enough() -> None:
    chunked = HEAD + b"transfer-encoding:  gzip, Chunked\r\n\r\n"
    some = chunked + b"5\r\nhello\r\n"
    assert awaited_bytes(chunked) == len(chunked) + 1
    assert awaited_bytes(some) == len(some) + 1
    assert awaited_bytes(some + b"0\r\n\r\n") == 0
    assert awaited_bytes(chunked + b"0" * BODY_AWAITED_BYTES) == 0


def test_a_header_that_is_too_long_is_left_to_the_handler() -> None:
    assert awaited_bytes(b"x" * (HEADER_MAX_BYTES - 1)) == HEADER_MAX_BYTES
    assert awaited_bytes(b"x" * HEADER_MAX_BYTES) == 0


@pytest.mark.parametrize("length", [b"-1", b"1_0", b"", b"9" * 19, b"0x10", b"1, 1"])
def test_a_length_that_is_none_is_left_to_the_handler(length: bytes) -> None:
    assert awaited_bytes(HEAD + b"Content-Length: " + length + b"\r\n\r\n") == 0


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", GET, post(30), HEAD + b"Transfer-Encoding: chunked\r\n\r\n"]),
)
def test_whatever_comes_it_is_looked_at_again_only_when_there_is_more(sent: bytes, before: bytes) -> None:
    received = before + sent
    assert awaited_bytes(received) == 0 or awaited_bytes(received) > len(received)


@given(st.integers(0, 100), st.integers(0, 200))
def test_a_request_has_arrived_when_all_of_it_has(length: int, size: int) -> None:
    whole = post(length) + b"x" * length
    assert (awaited_bytes(whole[:size]) == 0) == (size >= len(whole))
