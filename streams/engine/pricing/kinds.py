"""The kinds of quantity that a price multiplies, and the cost of a quantity.

It knows nothing of jobs or events, only prices and quantities.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class Kind(IntEnum):
    """A kind of quantity; for each (component, kind) one SKU wins (docs/cost_model.md)."""

    GPU_TIME = 0
    INSTANCE_TIME = 1
    CPU_TIME = 2
    MEMORY_TIME = 3
    JOB_TIME = 4
    BYTES = 5
    REQUESTS = 6
    MIB_MS = 7


UNIT_OF_KIND: Final[dict[Kind, str]] = {
    Kind.GPU_TIME: "gpu_milli_ms",
    Kind.INSTANCE_TIME: "instance_milli_ms",
    Kind.CPU_TIME: "cpu_milli_ms",
    Kind.MEMORY_TIME: "memory_gib_milli_ms",
    Kind.JOB_TIME: "ms",
    Kind.BYTES: "bytes",
    Kind.REQUESTS: "requests",
    Kind.MIB_MS: "mib_ms",
}

KIND_OF_UNIT: Final[dict[str, Kind]] = {unit: kind for kind, unit in UNIT_OF_KIND.items()}

COMPUTE: Final = "compute"

#: The components that accrue with time, for each kind; `gpu` rows show even without a price.
TIME_COMPONENTS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.GPU_TIME: ("gpu", "license", "labor", "overhead"),
    Kind.INSTANCE_TIME: ("compute",),
    Kind.CPU_TIME: ("compute",),
    Kind.MEMORY_TIME: ("compute",),
    Kind.JOB_TIME: ("compute", "license", "labor", "overhead"),
}

#: Components whose quantities are always shown and reported as unpriced when no price matches.
SHOWN_UNPRICED: Final = frozenset({"gpu", "network", "storage"})


class PriceRef(NamedTuple):
    """One price revision as a ledger row names it.  `divisor` as in docs/cost_model.md; usd_nano is per `per`."""

    component: str
    unit: str
    sku: str
    effective_ms: int
    usd_nano: int
    divisor: int


def unpriced(component: str, kind: Kind) -> PriceRef:
    """The reference of a quantity without a price: empty sku, effective 1970-01-01, cost 0."""
    return PriceRef(component, UNIT_OF_KIND[kind], "", 0, 0, 1)


def kind_of_price(per: str, gpus: int) -> Kind:
    """The kind of quantity that a price `per` multiplies; `gpus` is 0 for `instance_hour` without GPUs."""
    if per == "instance_hour":
        return Kind.GPU_TIME if gpus else Kind.INSTANCE_TIME
    return _KIND_OF_PER[per]


_KIND_OF_PER: Final[dict[str, Kind]] = {
    "gpu_hour": Kind.GPU_TIME,
    "vcpu_hour": Kind.CPU_TIME,
    "memory_gib_hour": Kind.MEMORY_TIME,
    "job_hour": Kind.JOB_TIME,
    "gib": Kind.BYTES,
    "gb": Kind.BYTES,
    "thousand_requests": Kind.REQUESTS,
    "gib_month": Kind.MIB_MS,
}
