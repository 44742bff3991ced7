"""What a user asks for, as integers: GPUs, hours and speed factors from decimal text."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, get_args

from schemas.durations import HOUR_MS
from schemas.units import MILLI
from schemas.wire_types import MAX_GPU_COUNT, Purchase
from streams.errors import WrongUseError

HOURS_AT_MOST: Final = 400 * 24
SPEED_AT_MOST: Final = 1_000
PURCHASES: Final[tuple[str, ...]] = get_args(Purchase)


def gpu_milli_of(text: str) -> int:
    """Thousandths of a GPU.

    Raises:
        WrongUseError: The text is no number of GPUs in (0, 100,000] with at most three decimals.
    """
    milli = _number("--gpus", text, MAX_GPU_COUNT) * MILLI
    if milli != int(milli):
        raise WrongUseError(f"--gpus {text}: at most three decimals")
    return int(milli)


def work_ms_of(text: str) -> int:
    """Hours as ms, at least 1.

    Raises:
        WrongUseError: The text is no number of hours in (0, 9,600], the 400 days for which an attempt is paid.
    """
    return max(int((_number("--hours", text, HOURS_AT_MOST) * HOUR_MS).to_integral_value()), 1)


def speed_of(text: str) -> Fraction:
    """The factor that multiplies time.

    Raises:
        WrongUseError: The text is no number in (0, 1,000].
    """
    return Fraction(_number("--speed-factor", text, SPEED_AT_MOST))


def check_purchase(text: str) -> None:
    """Check that a way of buying is one that events have.

    Raises:
        WrongUseError: Events have no such `purchase`.
    """
    if text and text not in PURCHASES:
        raise WrongUseError(f"--purchase {text}: one of {', '.join(PURCHASES)}")


def _number(option: str, text: str, most: int) -> Decimal:
    try:
        number = Decimal(text)
        if number.is_finite() and 0 < number <= most and number.adjusted() > -10 and len(text) <= 32:
            return number
    except InvalidOperation:
        pass
    raise WrongUseError(f"{option} {text[:40]}: a number above 0, {most:,} at most")


def check_labels(labels: Iterable[str]) -> None:
    """Check that each label is a key with a value, and no key is given twice.

    Raises:
        WrongUseError: One is not, or is.
    """
    keys: set[str] = set()
    for label in labels:
        key, sign, value = label.partition("=")
        if not (key and sign and value):
            raise WrongUseError(f"--label {label}: expected KEY=VALUE, e.g. data_class=pii")
        if key in keys:
            raise WrongUseError(f"--label {label}: {key} is given twice; a job has one value of it")
        keys.add(key)
