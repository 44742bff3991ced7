"""The units of quantities and money, and the exact conversions into them.

It must not round silently: a value that is not exact in a unit is refused with ValueError.
"""

import math
import re
from decimal import Decimal
from enum import StrEnum
from typing import Final

from schemas.durations import HOUR_MS

#: What a ledger row may pay for: each has a column `<component>_cost_usd` in `job_hours`.
COMPONENTS: Final = ("gpu", "compute", "network", "storage", "license", "labor", "overhead", "compliance")

#: The `instance_type` of energy: an instance of it is a watt, so that an instance-hour is a watt-hour.
WATT: Final = "watt"

NANO_PER_USD: Final = 10**9
MILLI: Final = 1_000
BYTES_PER_GIB: Final = 2**30
BYTES_PER_GB: Final = 10**9
BYTES_PER_MIB: Final = 2**20
REQUESTS_PER_THOUSAND: Final = 1_000
MIB_PER_GIB: Final = 1_024
HOURS_PER_MONTH: Final = 730

USD_LIMIT: Final = 100_000
"""A price is below this many dollars."""

_USD = re.compile(r"0*([0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)


class Unit(StrEnum):
    """The unit of a ledger quantity; members are named as they are stored."""

    gpu_milli_ms = "gpu_milli_ms"
    instance_milli_ms = "instance_milli_ms"
    cpu_milli_ms = "cpu_milli_ms"
    memory_gib_milli_ms = "memory_gib_milli_ms"
    ms = "ms"
    bytes = "bytes"
    requests = "requests"
    mib_ms = "mib_ms"


class Per(StrEnum):
    """The quantity that a price is for; members are named as on the wire."""

    gpu_hour = "gpu_hour"
    instance_hour = "instance_hour"
    vcpu_hour = "vcpu_hour"
    memory_gib_hour = "memory_gib_hour"
    job_hour = "job_hour"
    gib = "gib"
    gb = "gb"
    thousand_requests = "thousand_requests"
    gib_month = "gib_month"


#: Of a unit of the ledger: the unit that people say, and how many of the first make one. Others stand for themselves.
READABLE: Final[dict[str, tuple[str, int]]] = {
    Unit.gpu_milli_ms: ("GPU-h", HOUR_MS * MILLI),
    Unit.instance_milli_ms: ("instance-h", HOUR_MS * MILLI),
    Unit.cpu_milli_ms: ("CPU-h", HOUR_MS * MILLI),
    Unit.memory_gib_milli_ms: ("GiB-h", HOUR_MS * MILLI),
    Unit.ms: ("h", HOUR_MS),
    Unit.bytes: ("GiB", BYTES_PER_GIB),
    Unit.mib_ms: ("GiB-months", MIB_PER_GIB * HOURS_PER_MONTH * HOUR_MS),
}
_SMALL: Final = 0.001

_DIVISOR: Final[dict[Per, int]] = {
    Per.gpu_hour: HOUR_MS * MILLI,
    Per.instance_hour: HOUR_MS * MILLI,
    Per.vcpu_hour: HOUR_MS * MILLI,
    Per.memory_gib_hour: HOUR_MS * MILLI,
    Per.job_hour: HOUR_MS,
    Per.gib: BYTES_PER_GIB,
    Per.gb: BYTES_PER_GB,
    Per.thousand_requests: REQUESTS_PER_THOUSAND,
    Per.gib_month: MIB_PER_GIB * HOURS_PER_MONTH * HOUR_MS,
}


def divisor(per: Per, gpus: int) -> int:
    """The divisor of cost_nano = quantity x usd_nano / divisor (docs/cost_model.md).

    `gpus` counts for `instance_hour` only: the number of GPUs that the price covers; 0: the price is for the instance
    itself (instance time, not GPU-time).
    """
    base = _DIVISOR[per]
    return base * gpus if per is Per.instance_hour and gpus > 1 else base


def readable(quantity: int, unit: str) -> str:
    """A quantity of the ledger in the unit that people say, with three decimals, or two digits of what is smaller."""
    name, each = READABLE.get(unit, (unit, 1))
    if each == 1:
        return f"{quantity:,} {name}"
    value = quantity / each
    shown = f"{value:.2g}" if 0 < abs(value) < _SMALL else f"{value:,.3f}"
    return f"{shown} {name}"


def usd_to_nano(text: str, limit_usd: int = USD_LIMIT) -> int:
    """Convert a plain decimal string in [0, limit) with at most nine decimals to nano-dollars.

    Raises:
        ValueError: The text is not such a number.
    """
    match = _USD.fullmatch(text)
    if match is None or int(match[1]) >= limit_usd:
        raise ValueError(f"expected a decimal string in [0, {limit_usd}) with at most 9 decimals")
    return int(match[1]) * NANO_PER_USD + int((match[2] or "").ljust(9, "0"))


def nano_of_usd(usd: Decimal) -> int:
    """Return dollars with at most nine decimals as nano-dollars."""
    return int(usd.scaleb(9))


def to_milli(x: float) -> int:
    """Convert a finite number with at most three decimals to thousandths.

    Raises:
        ValueError: It is not such a number.
    """
    if isinstance(x, int):
        return x * MILLI
    if not math.isfinite(x):
        raise ValueError("expected a finite number")
    # The double nearest to k/1000 is the only one that converts to k and back.
    milli = round(x * MILLI)
    if milli / MILLI != x:
        raise ValueError("expected a number with at most three decimals")
    return milli


def per_text(per: str, gpus: int) -> str:
    """What a price is for one of, with the GPUs of an instance."""
    if per == Per.instance_hour and gpus:
        return f"{per} of {gpus} GPU{'s' if gpus > 1 else ''}"
    return per
