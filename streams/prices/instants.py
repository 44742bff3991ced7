"""Dates and instants as people write them in price lists and options."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from schemas.wire_types import MAX_TIME_MS

EXPECTED: Final = (
    "a date (2026-10-01, from midnight UTC), an instant (2026-10-01T12:00Z), or nothing for since ever"
)
_FORM: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,3})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def effective_ms(text: str) -> int:
    """The ms since 1970 from which a price holds; 0, before any usage, for an empty text.

    Raises:
        ValueError: It is neither a date nor an instant.
    """
    stripped = text.strip()
    if not stripped:
        return 0
    if _FORM.fullmatch(stripped) is None:
        raise ValueError(f"expected {EXPECTED}")
    try:
        at = datetime.fromisoformat(stripped)
        span = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        raise ValueError("there is no such day or time") from None
    found = span.days * 86_400_000 + span.seconds * 1_000 + span.microseconds // 1_000
    if not 0 <= found <= MAX_TIME_MS:
        raise ValueError("expected a time from 1970 to 2299")
    return found


def since(effective: int) -> str:
    """How a table shows the ms from which a price holds: a date where it is one, `ever` for 0."""
    if effective == 0:
        return "ever"
    at = datetime.fromtimestamp(effective // 1_000, UTC).replace(microsecond=effective % 1_000 * 1_000)
    if effective % 86_400_000 == 0:
        return f"{at:%Y-%m-%d}"
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{effective % 1_000:03d}" if effective % 1_000 else "")


def begins(effective: int) -> str:
    """Return from when a price holds, for a sentence."""
    return "since ever" if effective == 0 else f"from {since(effective)}"
