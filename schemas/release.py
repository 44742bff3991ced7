"""Which release of trainfare runs, and which of two is the later one."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

#: Of a checkout that is not installed.
UNKNOWN: Final = "unknown"
_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def release() -> str:
    """The version of the installed package, such as `0.1.0`; UNKNOWN if it is not installed."""
    try:
        return version("trainfare")
    except PackageNotFoundError:
        return UNKNOWN


def is_later(one: str, other: str) -> bool:
    """Whether the first release came after the second one; of an unknown one nobody can tell, so it did not."""
    first, second = _NUMBERS.match(one), _NUMBERS.match(other)
    return first is not None and second is not None and _numbers(first) > _numbers(second)


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number or 0) for number in match.groups())
