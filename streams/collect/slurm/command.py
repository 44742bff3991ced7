"""Runs Slurm's commands within the limits of the options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streams.collect.command import answer_of
from streams.collect.slurm.options import Options


def asking(options: Options) -> Callable[[Sequence[str]], bytes]:
    """What runs a command within the options' limits."""
    most = options.max_output_mib * 2**20
    return lambda command: answer_of(command, timeout_s=options.timeout_s, bytes_at_most=most)
