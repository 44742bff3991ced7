"""Formats money, ratios, durations and names for one-line texts.

Nothing may parse them: exact values are in the columns beside the text.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.escaping import visible

_NANO: Final = 10**9
_CENT_NANO: Final = 10**7
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: A sentence about an alert is read on a phone.
SENTENCE_AT_MOST: Final = 200
#: How long names in it may be, shorter ones where it would be too long.
NAMES_AT_MOST: Final = 40
_LENGTHS: Final = (NAMES_AT_MOST, 24, 16, 12)
_UNHEEDED_HOURS: Final = 8
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


def of_others(jobs: int) -> str:
    """Count jobs of other teams, which a sentence for one team does not name."""
    return f"{jobs} jobs of other teams" if jobs > 1 else "1 job of another team"


def instant(ms: int) -> str:
    """Format as `2026-03-01 03:12:40 UTC`."""
    return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"


def short_instant(ms: int, today_ms: int) -> str:
    """Format as `03:12`, with the date if it is another UTC day than that of `today_ms`."""
    if ms // DAY_MS != today_ms // DAY_MS:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M}"
    hour, minute = divmod(ms % DAY_MS // MINUTE_MS, 60)
    return f"{hour:02d}:{minute:02d}"


def one_line(name: str) -> str:
    """Return a name without characters that break, reverse or colour a line."""
    return visible(name)


def short(name: str, at_most: int = 24) -> str:
    """Return a name on one line, shortened in its middle to so many characters."""
    shown = one_line(name)
    if len(shown) <= at_most:
        return shown
    tail = (at_most - 1) // 2
    return f"{shown[: at_most - 1 - tail]}\u2026{shown[len(shown) - tail :]}"


def sentence(build: Callable[[int], str], *more: str) -> str:
    """Return a text of at most SENTENCE_AT_MOST characters, and as many further parts as fit.

    `build` gets how long names may be; its text is cut only if it is too long with the shortest names.
    """
    text = next(
        (found for at_most in _LENGTHS if len(found := build(at_most)) <= SENTENCE_AT_MOST),
        f"{build(_LENGTHS[-1])[: SENTENCE_AT_MOST - 1]}\u2026",
    )
    for part in more:
        if part and len(text) + len(part) + 2 <= SENTENCE_AT_MOST:
            text = f"{text}; {part}"
    return text


def unheeded(nano_per_hour: int, at_ms: int) -> str:
    """Return what it costs if nothing is done for 8 h: for a night, or a working day."""
    until_ms = (at_ms // HOUR_MS + _UNHEEDED_HOURS) * HOUR_MS
    more = rounded_usd(nano_per_hour * (until_ms - at_ms) // HOUR_MS)
    return f"{more} more by {short_instant(until_ms, at_ms)} UTC"


def gpus(milli: int) -> str:
    """Format a number of GPUs, with up to three decimals."""
    return count(milli, "GPU")


def many(number: int) -> str:
    """Format a large whole number of things in short: 2.5 M."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def count(milli: int, noun: str = "") -> str:
    """Format a number of things, with up to three decimals."""
    number = f"{milli / 1000:,.3f}".rstrip("0").rstrip(".")
    return f"{number} {noun}{'' if milli == 1000 else 's'}" if noun else number
