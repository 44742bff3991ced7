"""Money of a row: round_half_even(quantity x price / divisor) in nano-dollars, exact in 128 bits.

It must not maintain a running sum or a remainder: a cost is derived once, from the whole quantity of its row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, equal_lengths, exact
from streams.engine.kernels.wide import mul_div_floor, mul_div_mod

__all__ = ["MAX_COST_NANO", "bill_rows", "cost_nano", "mul_div_floor"]

# The largest Decimal(18, 9).
MAX_COST_NANO = 10**18 - 1


@kernel
def cost_of(quantity: int, usd_nano: int, divisor: int) -> int:
    """The cost, or MAX_COST_NANO + 1 where it exceeds MAX_COST_NANO."""
    cost, rest = mul_div_mod(quantity, usd_nano, divisor)
    if cost > MAX_COST_NANO:
        return MAX_COST_NANO + 1
    over_half = rest - (divisor - rest)
    if over_half > 0 or (over_half == 0 and (cost & 1) == 1):
        return cost + 1
    return cost


@kernel
def _cost_nano(quantity: I64, usd_nano: I64, divisor: I64, cost: I64) -> tuple[int, int]:
    """Fill `cost`; return the number of capped rows and the first row out of range (-1: none)."""
    capped = 0
    for i in range(quantity.size):
        if quantity[i] < 0 or usd_nano[i] < 0 or divisor[i] < 1:
            return capped, i
        cost[i] = cost_of(quantity[i], usd_nano[i], divisor[i])
        if cost[i] > MAX_COST_NANO:
            cost[i] = MAX_COST_NANO
            capped += 1
    return capped, -1


@kernel
def _bill_rows(
    line: I32, quantity: I64, lost: I64, usd_nano: I64, divisor: I64, cost: I64, lost_cost: I64
) -> tuple[int, int]:
    """Fill `cost` and `lost_cost`; return the number of capped rows and the first row out of range (-1: none)."""
    capped = 0
    for i in range(line.size):
        k = line[i]
        if k < 0 or k >= usd_nano.size or quantity[i] < 0 or lost[i] < 0:
            return capped, i
        if usd_nano[k] < 0 or divisor[k] < 1:
            return capped, i
        cost[i] = cost_of(quantity[i], usd_nano[k], divisor[k])
        if lost[i] == 0:
            lost_cost[i] = 0
        elif lost[i] == quantity[i]:
            lost_cost[i] = cost[i]
        else:
            lost_cost[i] = cost_of(lost[i], usd_nano[k], divisor[k])
        if cost[i] > MAX_COST_NANO or lost_cost[i] > MAX_COST_NANO:
            cost[i] = min(cost[i], MAX_COST_NANO)
            lost_cost[i] = min(lost_cost[i], MAX_COST_NANO)
            capped += 1
    return capped, -1


def cost_nano(quantity: ArrayLike, usd_nano: ArrayLike, divisor: ArrayLike) -> tuple[I64, int]:
    """The cost of each row ([n] int64, nano-dollars) and how many were capped.

    Raises:
        ValueError: A quantity or price is negative, or a divisor is below 1.
    """
    q, usd, div = exact(quantity, np.int64), exact(usd_nano, np.int64), exact(divisor, np.int64)
    cost = np.empty(equal_lengths(q, usd, div), np.int64)
    capped, bad = _cost_nano(q, usd, div, cost)
    if bad >= 0:
        raise ValueError(
            f"row {bad}: quantity {q[bad]}, usd_nano {usd[bad]}, divisor {div[bad]} out of range"
        )
    return cost, int(capped)


def bill_rows(
    line: ArrayLike, quantity: ArrayLike, lost: ArrayLike, usd_nano: ArrayLike, divisor: ArrayLike
) -> tuple[I64, I64, int]:
    """Cost and lost cost of each row ([n] int64, nano-dollars) at the price of its line, and how many were capped.

    The lost quantity is priced and rounded as a row is.

    Raises:
        ValueError: A line is outside the price arrays, or a value is out of range.
    """
    k = exact(line, np.int32)
    q, part = exact(quantity, np.int64), exact(lost, np.int64)
    usd, div = exact(usd_nano, np.int64), exact(divisor, np.int64)
    equal_lengths(usd, div)
    cost = np.empty(equal_lengths(k, q, part), np.int64)
    lost_cost = np.empty(len(cost), np.int64)
    capped, bad = _bill_rows(k, q, part, usd, div, cost, lost_cost)
    if bad >= 0:
        raise ValueError(
            f"row {bad}: line {k[bad]}, quantity {q[bad]}, lost {part[bad]} or its price out of range"
        )
    return cost, lost_cost, int(capped)
