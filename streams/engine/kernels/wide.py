"""Multiply and divide in 128 bits with nothing but int64 values that never overflow.

Must not rely on wrap-around: the same lines run compiled and, with the JIT off, on numpy scalars.
"""

from __future__ import annotations

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import INT64_MAX

# Below this a float product proves that the integer product fits: its relative error is under 1e-15.
PRODUCT_FITS = 9.2e18

_WIDE_DIGIT_BITS = 30
_WIDE_DIGIT_LIMIT = 2**32
_NARROW_DIGIT_BITS = 10
_NARROW_DIGIT_LIMIT = 2**52


@kernel
def saturating_add(a: int, b: int) -> int:
    """Sum of two values not negative, at most int64 max."""
    if a > INT64_MAX - b:
        return INT64_MAX
    return a + b


@kernel
def saturating_mul(a: int, b: int) -> int:
    """Product of two values not negative, at most int64 max."""
    if float(a) * float(b) < PRODUCT_FITS:
        return a * b
    if a > INT64_MAX // b:
        return INT64_MAX
    return a * b


@kernel
def _divide_by_bits(r: int, b: int, d: int) -> tuple[int, int]:
    """(r * b) // d and the remainder for r < d, by doubling: no sum ever passes d, so any d will do."""
    quotient = 0
    rest = 0
    shift = 62
    while shift >= 0:
        if rest >= d - rest:
            rest -= d - rest
            quotient += quotient + 1
        else:
            rest += rest
            quotient += quotient
        if (b >> shift) & 1:
            if rest >= d - r:
                rest -= d - r
                quotient += 1
            else:
                rest += r
        shift -= 1
    return quotient, rest


@kernel
def _divide_by_digits(r: int, b: int, d: int, bits: int) -> tuple[int, int]:
    """(r * b) // d and the remainder for r < d, schoolbook over digits of b; needs d * 2**(bits + 1) <= 2**63."""
    mask = (1 << bits) - 1
    shift = 0
    while (b >> shift) > mask:
        shift += bits
    quotient = 0
    rest = 0
    while shift >= 0:
        part = (rest << bits) + r * ((b >> shift) & mask)
        digit = part // d
        rest = part - digit * d
        quotient = (quotient << bits) + digit
        shift -= bits
    return quotient, rest


@kernel
def mul_div_mod(a: int, b: int, d: int) -> tuple[int, int]:
    """(a * b) // d, at most int64 max, and the remainder, for a, b >= 0 and d >= 1 of the whole int64 range."""
    if float(a) * float(b) < PRODUCT_FITS:
        product = a * b
        quotient = product // d
        return quotient, product - quotient * d
    whole = a // d
    r = a - whole * d
    if d < _WIDE_DIGIT_LIMIT:
        quotient, rest = _divide_by_digits(r, b, d, _WIDE_DIGIT_BITS)
    elif d < _NARROW_DIGIT_LIMIT:
        quotient, rest = _divide_by_digits(r, b, d, _NARROW_DIGIT_BITS)
    else:
        quotient, rest = _divide_by_bits(r, b, d)
    return saturating_add(saturating_mul(whole, b), quotient), rest


@kernel
def mul_div_floor(a: int, b: int, d: int) -> int:
    """floor(a * b / d), at most int64 max, for a, b >= 0 and d >= 1 of the whole int64 range."""
    return mul_div_mod(a, b, d)[0]
