"""Formats money, ratios, durations and names for one-line texts.

Nothing may parse them: exact values are in the columns beside the text.
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
    """Format dollars and cents; with more decimals where the amount would show as zero."""
    if nano and abs(nano) < _NANO:
        return f"${nano / _NANO:.9f}".rstrip("0") if abs(nano) < _CENT_NANO else f"${nano / _NANO:.4f}"
    cents = (nano + _CENT_NANO // 2) // _CENT_NANO
    return f"${cents // 100:,}.{cents % 100:02d}"


def rounded_usd(nano: int) -> str:
    """Format an estimate: whole dollars from $10 on."""
    return usd(nano) if abs(nano) < 10 * _NANO else f"${(nano + _NANO // 2) // _NANO:,}"


def times(ratio: float) -> str:
    """Format a ratio as a multiple."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x"


def span(ms: int) -> str:
    """Format a duration in its two largest units."""
    parts: list[str] = []
    for unit_ms, name in _UNITS_MS:
        if ms >= unit_ms and len(parts) < 2:
            parts.append(f"{ms // unit_ms} {name}")
            ms %= unit_ms
    return " ".join(parts) or "0 s"


def instant(ms: int) -> str:
    """Format as `2026-03-01 03:12:40 UTC`."""
    return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"


def short_instant(ms: int, today_ms: int) -> str:
    """Format as `03:12`, with the date if it is another UTC day than that of `today_ms`."""
    at, today = (_EPOCH + timedelta(milliseconds=each) for each in (ms, today_ms))
    return f"{at:%H:%M}" if at.date() == today.date() else f"{at:%Y-%m-%d %H:%M}"


def one_line(name: str) -> str:
    """Return a name without characters that break, reverse or colour a line."""
    return visible(name)


def gpus(milli: int) -> str:
    """Format a number of GPUs, with up to three decimals."""
    return count(milli, "GPU")


def count(milli: int, noun: str = "") -> str:
    """Format a number of things, with up to three decimals."""
    number = f"{milli / 1000:,.3f}".rstrip("0").rstrip(".")
    return f"{number} {noun}{'' if milli == 1000 else 's'}" if noun else number
