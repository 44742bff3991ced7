"""The forms of amounts and instants in JSON that programs read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.units import NANO_PER_USD

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def usd(nano: int) -> str:
    """Format nano-dollars as an exact decimal string."""
    whole, part = divmod(abs(nano), NANO_PER_USD)
    digits = f"{whole}.{part:09d}".rstrip("0").rstrip(".")
    return f"-{digits}" if nano < 0 else digits


def rfc3339(ms: int) -> str:
    """Format an instant with milliseconds, in UTC."""
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
