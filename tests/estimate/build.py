"""Books and jobs of a few lines each, for tests of estimates."""

from __future__ import annotations

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.estimate.past import Past
from streams.estimate.ran import Attempt, Paid, RanJob

HOUR_MS = 3_600_000
GPU_HOUR = HOUR_MS * 1_000


def price(
    sku: str,
    usd_nano: int,
    *,
    component: str = "gpu",
    per: str = "gpu_hour",
    from_ms: int = 0,
    **match: str,
) -> PriceEvent:
    return PriceEvent(
        "t", f"{sku}@{from_ms}", 0, sku, Component(component), usd_nano, Per(per), 1, from_ms, match
    )


def book(*prices: PriceEvent) -> PriceBook:
    return PriceBook.empty().with_events(prices)


def paid(
    quantity: int,
    cost_nano: int,
    *,
    attempt: int = 1,
    component: str = "gpu",
    unit: str = "gpu_milli_ms",
    starting: bool = False,
    step: int = 0,
    lost: int = 0,
    preempted: int = 0,
    preempted_nano: int = 0,
) -> Paid:
    return Paid(
        attempt, component, unit, starting, step, quantity, lost, preempted, cost_nano, preempted_nano
    )


def job(
    *rows: Paid, states: tuple[str, ...] = ("completed",), starts_ms: tuple[int, ...] = (0,), **fields: str
) -> RanJob:
    attempts = tuple(Attempt(number, state, fields) for number, state in enumerate(states, 1))
    return RanJob("team", "project", HOUR_MS, attempts, starts_ms, rows)


def past(gpu: int = 100, lost: int = 20, *, jobs: int = 5, **following_nano: int) -> Past:
    following = {"compute": 0, "network": 0, "storage": 0} | following_nano
    return Past({"gpu_type": "H100"}, jobs, 2 * HOUR_MS, 5 * HOUR_MS, jobs + 2, gpu, lost, following)
