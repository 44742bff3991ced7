"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from streams.agents.memory import _malloc_trim, give_back

MIB = 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_was_freed_between_what_is_kept_goes_back() -> None:
    if _malloc_trim() is None or not Path("/proc/self/statm").exists():
        pytest.skip("needs glibc and /proc")
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    pieces = [libc.malloc(100_000) for _ in range(1_000)]  # below the size that is mapped on its own
    for piece in pieces:
        ctypes.memset(piece, 1, 100_000)
    for number, piece in enumerate(pieces):
        if number % 10:
            libc.free(piece)
    before = resident_bytes()
    give_back()
    given_bytes = before - resident_bytes()
    for piece in pieces[::10]:
        libc.free(piece)
    assert given_bytes > 50 * MIB


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", gone)
    _malloc_trim.cache_clear()
    try:
        give_back()
        assert _malloc_trim() is None
    finally:
        _malloc_trim.cache_clear()
