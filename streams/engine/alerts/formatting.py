"""Formats money, ratios, durations and names for one-line texts.

It must not be parsed by anything: exact values stand in the columns beside the text.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.escaping import visible

_NANO: Final = 10**9
_CENT_NANO: Final = 10**7
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def usd(nano: int) -> str:
    """Dollars and cents; as many decimals as it takes where that would show nothing of the amount."""
    if nano and abs(nano) < _NANO:
        return f"${nano / _NANO:.9f}".rstrip("0") if abs(nano) < _CENT_NANO else f"${nano / _NANO:.4f}"
    cents = (nano + _CENT_NANO // 2) // _CENT_NANO
    return f"${cents // 100:,}.{cents % 100:02d}"


def times(ratio: float) -> str:
    """How many times something."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x"


def span(ms: int) -> str:
    """A length of time in its two largest units."""
    parts: list[str] = []
    for unit_ms, name in _UNITS_MS:
        if ms >= unit_ms and len(parts) < 2:
            parts.append(f"{ms // unit_ms} {name}")
            ms %= unit_ms
    return " ".join(parts) or "0 s"


def instant(ms: int) -> str:
    """`2026-03-01 03:12:40 UTC`."""
    return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"


def one_line(name: str) -> str:
    """A name without anything that would break, turn round or colour a line."""
    return visible(name)


def gpus(milli: int) -> str:
    """A number of GPUs, in up to three decimals."""
    return f"{milli / 1000:,.3f}".rstrip("0").rstrip(".") + (" GPU" if milli == 1000 else " GPUs")
