"""Freed memory is kept for the next fetch, where the C library can do so."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest

from streams.transport import allocator

FAULTS = """
import resource
from streams.transport import allocator
keep = {keep}
if keep and not allocator.keep_freed_memory():
    raise SystemExit("77")

def fetch():
    whole = bytearray(9 * 2**20)
    return [bytes(whole), bytes(whole)]

fetch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    fetch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(keep: bool) -> int:
    """Of 20 fetches of 27 MiB, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a switch of glibc")
def test_the_next_fetch_finds_its_pages_as_they_are() -> None:
    assert page_faults(keep=True) < 0.2 * page_faults(keep=False)


@pytest.mark.parametrize("library", [SimpleNamespace(), SimpleNamespace(mallopt=lambda *_: 0)])
def test_a_library_without_the_switch_or_the_value_changes_nothing(
    library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert allocator.keep_freed_memory() is False
