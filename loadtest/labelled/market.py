"""What the labelled fleet pays: fixed prices on demand, and spot prices that follow the hours of the day.

Spot prices are functions of the instant and the seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, Final

from schemas.durations import HOUR_MS

#: GPU type -> dollars per GPU-hour on demand.
ON_DEMAND_USD: Final = {"H100": 2.49, "A100": 1.29, "L40S": 0.79}
REGIONS: Final = ("us-east-1", "eu-west-1")
SPOT_SHARE: Final = 0.45
#: A spot price is so much above or below its mean at the peak and the trough of a day, and this much at random.
DIURNAL_SHARE: Final = 0.10
SPOT_NOISE_SHARE: Final = 0.02
VCPU_USD: Final = 0.04
VCPUS_PER_GPU: Final = 24
INTERNET_USD_PER_GB: Final = 0.09
CROSS_REGION_USD_PER_GB: Final = 0.02
_PEAK_HOUR: Final = 15


def mean_usd(gpu_type: str, purchase: str) -> float:
    """Dollars per GPU-hour, over a day."""
    return ON_DEMAND_USD[gpu_type] * (SPOT_SHARE if purchase == "spot" else 1)


def job_usd_per_hour(gpus: float, gpu_type: str, purchase: str) -> float:
    """What so many GPUs and their CPUs cost per hour, over a day."""
    return gpus * (mean_usd(gpu_type, purchase) + VCPUS_PER_GPU * VCPU_USD)


def price_events(begin_ms: int, end_ms: int, seed: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (when it comes, the price): those that stand first, then each hour's spot prices."""

    def price(at_ms: int, sku: str, component: str, usd: float, per: str, **match: str) -> dict[str, Any]:
        return {
            "source": "market", "id": f"{sku}-{at_ms}", "time_ms": at_ms, "sku": sku, "component": component,
            "usd": f"{usd:.6f}", "per": per, "effective_ms": at_ms, **match,
        }  # fmt: skip

    first = [
        price(begin_ms, "vcpu", "compute", VCPU_USD, "vcpu_hour"),
        price(begin_ms, "internet", "network", INTERNET_USD_PER_GB, "gb", path="internet"),
        price(begin_ms, "cross-region", "network", CROSS_REGION_USD_PER_GB, "gb", path="cross_region"),
        *(
            price(begin_ms, f"{kind}-od", "gpu", usd, "gpu_hour", gpu_type=kind, purchase="on_demand")
            for kind, usd in ON_DEMAND_USD.items()
        ),
    ]
    yield from ((begin_ms, value) for value in first)
    rng = random.Random(f"spot-{seed}")
    for at_ms in range(begin_ms, end_ms, HOUR_MS):
        of_day = math.cos((at_ms // HOUR_MS % 24 - _PEAK_HOUR) * math.tau / 24)
        for kind in ON_DEMAND_USD:
            for region in REGIONS:
                share = 1 + DIURNAL_SHARE * of_day + rng.gauss(0, SPOT_NOISE_SHARE)
                usd = mean_usd(kind, "spot") * share
                match = {"gpu_type": kind, "purchase": "spot", "region": region}
                yield at_ms, price(at_ms, f"{kind}-spot-{region}", "gpu", usd, "gpu_hour", **match)
