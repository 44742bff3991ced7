"""Values of other systems in the form that an event takes."""

from __future__ import annotations

from typing import Final

_MAX_BYTES: Final = 256


def event_text(value: str | None) -> str:
    """Cut a text to the 256 bytes that an event may hold, between two characters."""
    return (value or "").encode("utf-8", "replace")[:_MAX_BYTES].decode("utf-8", "ignore")


def count_of(milli: int) -> int | float:
    """Thousandths of a GPU or core as a count: whole where it is whole."""
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
