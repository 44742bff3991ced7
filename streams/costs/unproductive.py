"""What GPUs cost while they did not work."""

from __future__ import annotations

from fractions import Fraction


def unproductive_nano(gpu_nano: int, sampled_gpu_ms: int, productive_gpu_ms: int) -> int | None:
    """The cost of GPU-time without work, in nano-dollars; None: nothing was sampled.

    The share of the sampled GPU-time that did nothing stands for all of it.
    """
    if not sampled_gpu_ms:
        return None
    return round(Fraction(gpu_nano * (sampled_gpu_ms - productive_gpu_ms), sampled_gpu_ms))
