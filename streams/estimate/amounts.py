"""Exact arithmetic of estimates, in integers."""

from __future__ import annotations

from streams.engine.pricing.kinds import PriceRef


def half_even(numerator: int, denominator: int) -> int:
    """Numerator / denominator, rounded half to even; the denominator is positive."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))


def cost_nano(quantity: int, price: PriceRef, over: int = 1) -> int:
    """The nano-dollars of quantity / over, rounded once (docs/cost_model.md)."""
    return half_even(quantity * price.usd_nano, price.divisor * over)
