"""Parses non-negative JSON numbers from bytes, each correctly rounded."""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import F64, U8
from streams.engine.kernels.json_scan import byte_at

_ZERO = 48
_DIGITS = 10
_POINT, _MINUS, _PLUS = 46, 45, 43
_EXPONENT, _SMALL_EXPONENT = 69, 101
# Below this another digit may follow: int64 has room for 18.
_LARGEST_BEFORE_DIGIT = 10**17
_MOST_EXPONENT_DIGITS = 3

# Powers of ten that are exact doubles.
_EXACT_TEN = 22
_TENS: F64 = np.array([float(10**k) for k in range(_EXACT_TEN + 1)])
_EXACT_MANTISSA = 2**53
# Splits a double into two of 26 bits (Dekker).
_SPLITTER = 2.0**27 + 1.0
# Relative margin of a quotient: far above the error of its correction (2**-103), far below half of its last bit.
_DOUBT = 2.0**-83


@helper
def _scan_digits(data: U8, at: int, stop: int, value: int) -> tuple[int, int]:
    """Append the digits at `at` to the value; return it and where they end, -1: there are more than 18."""
    while at < stop:
        digit = int(np.int64(data[at])) - _ZERO
        if digit < 0 or digit >= _DIGITS:
            break
        if value >= _LARGEST_BEFORE_DIGIT:
            return 0, -1
        value = value * 10 + digit
        at += 1
    return value, at


@helper
def scan_integer(data: U8, at: int, stop: int) -> tuple[int, int]:
    """Read the integer of up to 18 plain digits at `at`; return it and where it ends, -1 if there is none."""
    value, end = _scan_digits(data, at, stop, 0)
    if end == at or (end - at > 1 and data[at] == _ZERO):
        return 0, -1
    return value, end


@helper
def _scan_exponent(data: U8, at: int, stop: int) -> tuple[int, int]:
    """Read the exponent whose letter is at `at`; return it and where it ends, -1 if it is not one."""
    at += 1
    sign = byte_at(data, at, stop)
    if sign in (_PLUS, _MINUS):
        at += 1
    value, end = _scan_digits(data, at, stop, 0)
    if end == at or end > at + _MOST_EXPONENT_DIGITS:
        return 0, -1
    return (-value if sign == _MINUS else value), end


@helper
def _high_part(value: float) -> float:
    """The upper 26 bits."""
    scaled = value * _SPLITTER
    return scaled - (scaled - value)


@helper
def quotient(mantissa: int, ten: int) -> float:
    """Mantissa / 10**ten, rounded once; -1.0 if the rounding is uncertain.

    `ten`: 0 to 22; the mantissa is at most 10**18. The quotient of two doubles is corrected by its remainder, which is
    known almost exactly.
    """
    divisor = _TENS[ten]
    rounded = float(mantissa)
    first = rounded / divisor
    # first * divisor = product + error, exactly (Dekker).
    product = first * divisor
    first_high, divisor_high = _high_part(first), _high_part(divisor)
    first_low, divisor_low = first - first_high, divisor - divisor_high
    error = ((first_high * divisor_high - product) + first_high * divisor_low + first_low * divisor_high) + (
        first_low * divisor_low
    )
    left = (rounded - product) + (float(mantissa - int(rounded)) - error)
    correction = left / divisor
    doubt = first * _DOUBT
    low, high = first + (correction - doubt), first + (correction + doubt)
    return low if low == high else -1.0


@helper
def scan_number(data: U8, at: int, stop: int) -> tuple[float, int]:
    """Read the non-negative number at `at`, correctly rounded; return it and where it ends, -1 if it is not plain."""
    mantissa, at = scan_integer(data, at, stop)
    if at < 0:
        return 0.0, -1
    ten = 0
    if byte_at(data, at, stop) == _POINT:
        first = at + 1
        mantissa, at = _scan_digits(data, first, stop, mantissa)
        if at <= first:
            return 0.0, -1
        ten = first - at
    if byte_at(data, at, stop) in (_SMALL_EXPONENT, _EXPONENT):
        exponent, at = _scan_exponent(data, at, stop)
        if at < 0:
            return 0.0, -1
        ten += exponent
    if ten > _EXACT_TEN or ten < -_EXACT_TEN:
        return 0.0, -1
    # A product or quotient of two exact doubles is rounded once (Clinger).
    if mantissa <= _EXACT_MANTISSA:
        return (float(mantissa) / _TENS[-ten] if ten < 0 else float(mantissa) * _TENS[ten]), at
    value = quotient(mantissa, -ten) if ten <= 0 else -1.0
    return value, (at if value >= 0.0 else -1)
