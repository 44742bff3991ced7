"""Ledger quantities in the units that people say: GPU-hours, hours, GiB."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS

_BYTES_PER_GIB: Final = 2**30
_MIB_MS_PER_GIB_MONTH: Final = 1_024 * 730 * HOUR_MS
#: Of a unit of the ledger: the unit of people, and how many of the first it is.
_UNITS: Final = {
    "gpu_milli_ms": ("GPU-h", 1_000 * HOUR_MS),
    "instance_milli_ms": ("instance-h", 1_000 * HOUR_MS),
    "cpu_milli_ms": ("CPU-h", 1_000 * HOUR_MS),
    "memory_gib_milli_ms": ("GiB-h", 1_000 * HOUR_MS),
    "ms": ("h", HOUR_MS),
    "bytes": ("GiB", _BYTES_PER_GIB),
    "mib_ms": ("GiB-months", _MIB_MS_PER_GIB_MONTH),
}
_SMALL: Final = 0.001


def for_people(quantity: int, unit: str) -> str:
    """A quantity with three decimals, or two digits of what is smaller; a unit that people say already stays."""
    name, divisor = _UNITS.get(unit, (unit, 1))
    if divisor == 1:
        return f"{quantity:,} {name}"
    value = quantity / divisor
    shown = f"{value:.2g}" if 0 < abs(value) < _SMALL else f"{value:,.3f}"
    return f"{shown} {name}"
