"""Labelled traces: one to five jobs over one to ten hours, each with a story, in a log that is a little out of order.

Must make the same trace of the same seed; what is judged of it is for the judge to say.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tests.oracle.intake import body
from tests.oracle.model import HOUR_MS, MINUTE_MS, Json, Line
from tests.strategies.stories import (
    Story,
    bursting,
    controlled,
    metered,
    repriced,
    scaled,
    steady,
    underestimated,
    unpriced,
)
from tests.strategies.telling import TICK_MS, USD, Teller, Trace, price_list
from tests.strategies.values import BASE_MS

# Prices of one trace alone, in one of five.
OWN_PRICES = (("host", "compute", "0.05", "vcpu_hour"), ("desk", "overhead", "0.20", "job_hour"))


def wild(tell: Teller, job: str) -> None:
    """Anything at any instant: nothing is owed, and everything is compared."""
    rng, usd = tell.rng, tell.rng.choice(USD)
    listed = usd if rng.random() < 0.4 else None
    if listed is None and rng.random() < 0.9:
        tell.price(job, usd, effective_ms=rng.choice((0, 0, tell.part(0, 0.3))))
    about = {"gpu_count": rng.choice((0, 1, 8)), "cpu_count": rng.choice((0, 0, 96)), "owner": f"of-{job}"}
    tell.begin(
        job, tell.part(0, 0.2), usd=listed, kind=rng.choice(("queued", "allocated", "started")), **about
    )
    kinds = (
        "started",
        "scaled",
        "scaled",
        "scaled",
        "heartbeat",
        "suspended",
        "resumed",
        "preempted",
        "updated",
    )
    for _ in range(rng.randrange(3, 14)):
        time_ms = tell.part(0.02, 0.9)
        event: Json = {"attempt": rng.choice((1, 1, 1, 2))}
        kind = (
            rng.choice(kinds)
            if event["attempt"] == 1
            else rng.choice(("allocated", "started", "scaled", "queued"))
        )
        if rng.random() < 0.6:
            event["gpu_count"] = rng.choice((1, 1, 2, 8, 16, 30))
        if rng.random() < 0.15:
            event["expected_usd_per_hour"] = rng.choice((0, usd, usd * 8, f"{usd * 3:.4f}"))
        if kind == "suspended":
            event["holds_gpus"] = rng.random() < 0.5
        late_ms = rng.choice((0, 0, 0, 45_000, 20 * MINUTE_MS))
        tell.say("jobs", time_ms, time_ms + late_ms, job_id=job, type=kind, **event)
    for _ in range(rng.randrange(4) if listed is None else 0):
        effective_ms = tell.part(0, 0.9)
        late_ms = rng.choice((0, 1, 10 * MINUTE_MS, -10 * MINUTE_MS))
        comes_ms = max(tell.begin_ms, effective_ms + late_ms)
        tell.price(job, usd * rng.choice((0.2, 1, 3, 9)), effective_ms=effective_ms, comes_ms=comes_ms)
    for _ in range(rng.randrange(6)):
        amount: Json = {"job_id": job, "interval_ms": rng.choice((0, 60_000, 90_001, HOUR_MS)), "attempt": 1}
        if rng.random() < 0.7:
            size = rng.choice((0, 10**9, 10**11, 10**12))
            tell.say(
                "network", tell.part(0.1, 0.95), path="internet", direction="egress", bytes=size, **amount
            )
        else:
            tell.say(
                "storage", tell.part(0.1, 0.95), op="write", bytes=1, requests=rng.randrange(10**7), **amount
            )
    if rng.random() < 0.3:
        match = rng.choice(
            ({"job_id": job}, {"owner": f"of-{job}"}, {"owner": f"of-{job}", "project": tell.name})
        )
        kind, from_ms = rng.choice(("planned", "silence")), tell.part(0, 0.8)
        plan: Json = {"usd_per_hour": usd * rng.choice((1, 8))} if kind == "planned" else {}
        until_ms = tell.instant(from_ms + 1, tell.end_ms)
        tell.say(
            "controls",
            tell.part(0, 0.9),
            kind=kind,
            name=f"w-{job}",
            from_ms=from_ms,
            until_ms=until_ms,
            **match,
            **plan,
        )
    if rng.random() < 0.7:
        tell.end(job, tell.part(0.8, 0.97), attempt=rng.choice((1, 2)))


STORIES: Sequence[tuple[Story, int]] = (
    (steady, 12), (scaled, 18), (repriced, 10), (bursting, 10), (metered, 6), (unpriced, 8), (underestimated, 5),
    (controlled, 10), (wild, 30),
)  # fmt: skip


def make_trace(
    seed: int,
    *,
    name: str = "t",
    begin_ms: int = BASE_MS,
    prices_ms: int | None = None,
    hours_at_most: float = 10,
    jobs_at_most: int = 5,
) -> Trace:
    """The trace of a seed; its first prices are told at `prices_ms`, else when it begins."""
    rng = random.Random(seed)
    low, high = rng.choices(((1, 2), (2, 4), (4, 10)), (60, 30, 10))[0]
    end_ms = begin_ms + int(min(rng.uniform(low, high), hours_at_most) * HOUR_MS)
    tell = Teller(name, rng, begin_ms, end_ms, prices_ms)
    for sku, component, usd, per in OWN_PRICES:
        if rng.random() < 0.2:
            said = {"sku": f"{sku}-{name}", "component": component, "usd": usd, "per": per, "project": name}
            tell.say("prices", tell.prices_ms, tell.prices_ms, effective_ms=0, **said)
    jobs = min(rng.choice((1, 1, 1, 2, 2, 3, 5)), jobs_at_most)
    for number in range(jobs):
        story = rng.choices([s for s, _ in STORIES], [weight for _, weight in STORIES])[0]
        story(tell, f"{name}-{story.__name__}-{number}")
    _noise(tell)
    tell.say("jobs", end_ms, end_ms + TICK_MS, job_id=f"{name}-last", type="queued")
    tell.trace.lines.sort(key=lambda told: told[0])
    return tell.trace


def _noise(tell: Teller) -> None:
    """Lines that come twice, and lines that are refused."""
    lines = tell.trace.lines
    for comes_ms, one in tell.rng.sample(lines, min(3, len(lines))):
        lines.append((comes_ms + tell.rng.randrange(MINUTE_MS), one))
    comes_ms, one = tell.rng.choice(lines)
    lines.append((comes_ms, replace(one, value={**body(one), "time_ms": "soon"}, valid=False)))


def merged(traces: Iterable[Trace], prices_ms: int = BASE_MS) -> list[Line]:
    """Many traces in one log, by the instants at which their lines come, after the price list."""
    told = heapq.merge(*(trace.lines for trace in traces), key=lambda told: told[0])
    return [*price_list(prices_ms), unpriced_on(prices_ms), *(one for _, one in told)]


def unpriced_on(time_ms: int) -> Line:
    """`unpriced` is off by default; here it is judged, too."""
    value = {"source": "t", "id": "unpriced-on", "time_ms": time_ms, "kind": "rule", "name": "unpriced"}
    return Line("controls", {**value, "enabled": True})


def traces(*, hours_at_most: float = 10, jobs_at_most: int = 5) -> st.SearchStrategy[Trace]:
    """Any trace."""
    return st.integers(0, 2**32 - 1).map(
        lambda seed: make_trace(seed, hours_at_most=hours_at_most, jobs_at_most=jobs_at_most)
    )
