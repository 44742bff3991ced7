"""Compiles the kernels before a command that needs them, and shows how far it is: `python -m streams.cli.kernels`.

It takes most of a minute of a core, once for each version; without a word a new user would take it for a fault. Two cores
share it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from streams.cli.progress import progress

_MODULE: Final = "streams.cli.kernels"
_HALF: Final = "--half"
_COMMAND: Final = [sys.executable, "-m", _MODULE]


def compile_kernels() -> None:
    """Compile all kernels, or load those that are compiled already, which takes a second."""
    from streams.engine.kernels._jit import are_compiled, is_cached  # loads Numba
    from streams.engine.kernels.warm import GROUPS, OTHER_HALF, compile_all

    if are_compiled():
        compile_all()
        return
    with progress("compiling the kernels, once", len(GROUPS), in_lines=True) as advance:
        with _other_half(is_wanted=is_cached()):
            for warm in GROUPS:
                if warm not in OTHER_HALF:
                    warm()
                    advance(1)
        compile_all()
        advance(sum(warm in OTHER_HALF for warm in GROUPS))


@contextmanager
def _other_half(*, is_wanted: bool) -> Iterator[None]:
    """Compile half of the kernels in another process during the block; who comes after it finds them in the cache.

    What that process does not compile, for whatever reason, this one does.
    """
    if not is_wanted or (os.cpu_count() or 1) < 2:
        yield
        return
    null = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-m", _MODULE, _HALF], stdout=null, stderr=null) as other:
        try:
            yield
        except BaseException:
            other.kill()
            raise


@contextmanager
def compiled_beside(*, is_wanted: bool) -> Iterator[Callable[[], None]]:
    """Compile the kernels in a process of its own during the block, which is ended with it.

    The function that is yielded shows how far it is, waits for it, and loads no compiler. What that process does not compile,
    for whatever reason, a meter compiles as it starts.
    """
    if not is_wanted:
        yield lambda: None
        return
    null = subprocess.DEVNULL
    with subprocess.Popen(_COMMAND, stdin=null, stdout=null, stderr=subprocess.PIPE, text=True) as process:
        lines = process.stderr

        def finish() -> None:
            for line in lines or ():
                sys.stderr.write(line)
                sys.stderr.flush()
            process.wait()

        try:
            yield finish
        finally:
            process.terminate()


def _compile_half() -> None:
    from streams.engine.kernels.warm import OTHER_HALF

    for warm in OTHER_HALF:
        warm()


if __name__ == "__main__":
    if _HALF in sys.argv:
        _compile_half()
    else:
        compile_kernels()
