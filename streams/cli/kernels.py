"""Compiles the kernels before a command that needs them, and shows how far it is: `python -m streams.cli.kernels`.

It takes a minute of a core, once for each version; without a word a new user would take it for a fault.
"""

from __future__ import annotations

from streams.cli.progress import progress


def compile_kernels() -> None:
    """Compile all kernels, or load those that are compiled already, which takes a second."""
    from streams.engine.kernels._jit import are_compiled  # loads Numba
    from streams.engine.kernels.warm import GROUPS, compile_all

    if are_compiled():
        compile_all()
        return
    with progress("compiling the kernels, once", len(GROUPS), in_lines=True) as advance:
        compile_all(advance)


if __name__ == "__main__":
    compile_kernels()
