"""Writes lengths of time for people, each rounded half up to its last unit as on the page; programs get milliseconds."""

from __future__ import annotations

from typing import Final

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_TENTH_MS: Final = SECOND_MS // 10
#: From so long on: in this unit and the smaller one that it is rounded to.
_UNITS: Final = (
    (DAY_MS, "d", HOUR_MS, "h"),
    (HOUR_MS, "h", MINUTE_MS, "min"),
    (MINUTE_MS, "min", SECOND_MS, "s"),
    (SECOND_MS, "s", SECOND_MS, ""),
)


def duration(ms: int) -> str:
    """Format a length of time in its two largest units: `7 min 20 s`, `31 s`; below a second in tenths, and never 0 for what is none."""
    if ms <= 0:
        return "0 s"
    for unit_ms, name, least_ms, least in _UNITS:
        rounded_ms = (ms + least_ms // 2) // least_ms * least_ms
        # What rounds up to a unit is one, but 0.95 s and more alone is a second.
        if rounded_ms >= unit_ms and (least or ms >= SECOND_MS - _TENTH_MS // 2):
            rest = rounded_ms % unit_ms // least_ms
            return f"{rounded_ms // unit_ms} {name}" + (f" {rest} {least}" if rest else "")
    tenths = (ms + _TENTH_MS // 2) // _TENTH_MS
    return f"0.{tenths} s" if tenths else "< 0.1 s"
