"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.worker.health.memory import ARENAS, _malloc_trim, release_free_pages

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
    release_free_pages()
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
        release_free_pages()
        assert _malloc_trim() is None
    finally:
        _malloc_trim.cache_clear()


POOLS = """
import ctypes
from threading import Barrier, Thread

import streams.cli.main
import pyarrow as pa
from streams.worker.health.memory import share_arenas

if {share}:
    share_arenas()

together = Barrier(12)

def work():
    held = [bytearray(2_000) for _ in range(100)]
    together.wait()
    pa.array(list(range(1_000)))

threads = [Thread(target=work) for _ in range(12)]
[each.start() for each in threads]
[each.join() for each in threads]
print(pa.default_memory_pool().backend_name)
ctypes.CDLL(None).malloc_stats()
"""


def pools(share: bool) -> tuple[str, int]:
    """Arrow's pool and the number of glibc's, after twelve threads."""
    done = subprocess.run(
        [sys.executable, "-c", POOLS.format(share=share)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), sum(line.startswith("Arena ") for line in done.stderr.splitlines())


@pytest.mark.skipif(_malloc_trim() is None, reason="not glibc")
def test_threads_share_what_they_free() -> None:
    backend, arenas = pools(share=True)
    assert backend == "system"  # of every command
    assert arenas <= ARENAS
    assert pools(share=False)[1] > ARENAS
