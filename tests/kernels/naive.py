"""The slow, obvious twin of each kernel, in Python integers.

Must not import anything of `streams`.
"""

from __future__ import annotations

MAX_COST_NANO = 10**18 - 1
INT64_MAX = 2**63 - 1


def cost_nano(quantity: int, usd_nano: int, divisor: int) -> tuple[int, bool]:
    """Half to even, and whether the cap took hold."""
    cost, rest = divmod(quantity * usd_nano, divisor)
    if 2 * rest > divisor or (2 * rest == divisor and cost % 2 == 1):
        cost += 1
    return min(cost, MAX_COST_NANO), cost > MAX_COST_NANO


def mul_div_mod(a: int, b: int, d: int) -> tuple[int, int]:
    """Floor and remainder; the floor saturates."""
    return min(a * b // d, INT64_MAX), a * b % d
