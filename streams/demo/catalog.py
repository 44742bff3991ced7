"""The inventory of the demo fleet and its prices: pools of nodes, price records, people.

It does not change over time: events are in `story`. Prices are list prices (examples/prices.md) where available.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GPUS_PER_NODE: Final = 8


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind."""

    name: str
    nodes: int  # permanent nodes
    gpu_type: str
    instance_type: str
    region: str
    zone: str
    cluster: str
    purchase: str = "on_demand"

    @property
    def price_fields(self) -> dict[str, object]:
        """The price fields of its nodes and of the jobs on them."""
        return {
            "cloud": "aws",
            "region": self.region,
            "zone": self.zone,
            "cluster": self.cluster,
            "instance_type": self.instance_type,
            "gpu_type": self.gpu_type,
            "purchase": self.purchase,
        }


POOLS: Final = {
    pool.name: pool
    for pool in (
        Pool("h100", 30, "H100", "p5.48xlarge", "us-east-1", "us-east-1a", "east"),
        Pool("a100", 10, "A100", "p4d.24xlarge", "us-west-2", "us-west-2b", "west"),
        Pool("spot", 2, "A100", "p4d.24xlarge", "us-west-2", "us-west-2c", "west", purchase="spot"),
        Pool("dev", 4, "L40S", "g6e.48xlarge", "us-east-1", "us-east-1b", "dev"),
        Pool("b200", 0, "B200", "p6-b200.48xlarge", "us-west-2", "us-west-2b", "west"),
    )
}

#: Given names of people, and their teams.
TEAMS: Final = {
    "ada": "foundation",
    "grace": "foundation",
    "alan": "reasoning",
    "barbara": "reasoning",
    "edsger": "vision",
    "frances": "vision",
    "katherine": "speech",
    "margaret": "recsys",
    "donald": "research",
    "radia": "platform",
    "tony": "tuning",
}

_PRICES: Final[tuple[dict[str, object], ...]] = (
    {
        "sku": "aws.p5.48xlarge",
        "component": "gpu",
        "usd": "55.04",
        "per": "instance_hour",
        "gpus": 8,
        "gpu_type": "H100",
    },
    {
        "sku": "aws.p4d.24xlarge",
        "component": "gpu",
        "usd": "21.957642",
        "per": "instance_hour",
        "gpus": 8,
        "gpu_type": "A100",
    },
    {
        "sku": "aws.p4d.24xlarge.spot",
        "component": "gpu",
        "usd": "8.1915",
        "per": "instance_hour",
        "gpus": 8,
        "gpu_type": "A100",
        "purchase": "spot",
    },
    {"sku": "l40s", "component": "gpu", "usd": "1.5484", "per": "gpu_hour", "gpu_type": "L40S"},
    {"sku": "cluster.overhead", "component": "overhead", "usd": "0.12", "per": "gpu_hour"},
    {"sku": "tracking.seat", "component": "license", "usd": "0.05", "per": "job_hour"},
    {
        "sku": "egress.cross-region",
        "component": "network",
        "usd": "0.02",
        "per": "gb",
        "path": "cross_region",
        "direction": "egress",
    },
    {
        "sku": "egress.internet",
        "component": "network",
        "usd": "0.09",
        "per": "gb",
        "path": "internet",
        "direction": "egress",
    },
    {"sku": "s3.read", "component": "storage", "usd": "0.0004", "per": "thousand_requests", "op": "read"},
    {"sku": "s3.write", "component": "storage", "usd": "0.005", "per": "thousand_requests", "op": "write"},
    {"sku": "s3.bytes", "component": "storage", "usd": "0", "per": "gb"},
    {"sku": "s3.stored", "component": "storage", "usd": "0.023", "per": "gib_month", "op": "stored"},
)

#: For the fleet's jobs only: those of the stories have prices of their own.
PRICES: Final = tuple({**price, "cloud": "aws"} for price in _PRICES)

#: What its operator has set: nodes without jobs are spare ones.
RULES: Final[tuple[dict[str, object], ...]] = (
    {"name": "spare-nodes", "rule": "forgotten_node", "enabled": False},
    {"name": "spare-share", "rule": "unallocated", "thresholds": {"idle_ratio": 0.25}},
)

#: Missing when the first B200 is rented; the price list adds it later, effective from the first minute.
LATE_PRICE: Final[dict[str, object]] = {
    "cloud": "aws",
    "sku": "b200.rented",
    "component": "gpu",
    "usd": "44",
    "per": "instance_hour",
    "gpus": 8,
    "gpu_type": "B200",
}
