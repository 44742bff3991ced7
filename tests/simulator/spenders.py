"""A team whose events come in time, and what limits it: budgets, rules across jobs, a node, a price."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.oracle.model import MINUTE_MS, Json
from tests.simulator import hour_stories
from tests.simulator.world import EPOCH_MS

TEAM = "amber"
LADDER = ({"do": "notify", "at": 0.5}, {"do": "checkpoint", "at": 0.8}, "stop")
_CLUSTER = {"cluster": "c9"}
BURN: Json = {"name": "limit", "rule": "team_burn", "team": TEAM, "thresholds": {"usd_per_hour": 0.5}}
FORGOTTEN: Json = {"name": "nodes", "rule": "forgotten_node", "thresholds": {"hours": 1}}
#: Names what comes in time.
SOURCE = "led"
#: No price of other fleets costs this one anything.
_PRICES = (
    ("gpu", "gpu_hour", "60"),
    ("compute", "job_hour", "0"),
    ("license", "gpu_hour", "0"),
    ("overhead", "job_hour", "0"),
)


def spending(
    rng: random.Random, span_ms: int, *, remembers_hours: bool
) -> Iterator[tuple[str, str, int, Json]]:
    """(topic, key of the partition, append time, event); `remembers_hours`: events of more than an hour ago are taken."""
    number = 0

    def said(topic: str, key: str, at_ms: int, event: Json) -> tuple[str, str, int, Json]:
        nonlocal number
        number += 1
        return (
            topic,
            key,
            max(at_ms, EPOCH_MS),
            {"source": SOURCE, "id": f"{number}", "time_ms": at_ms, **event},
        )

    for cluster in ("c9", hour_stories.CLUSTER):
        for component, per, usd in _PRICES:
            price = {"sku": f"{cluster}-{component}", "component": component, "per": per, "usd": usd}
            yield said("prices", "", EPOCH_MS, {**price, "effective_ms": 0, "cluster": cluster})
    for minute, usd in ((-5, "1"), (-2, rng.choice(("2", "10")))):
        price = {"sku": "jump", "component": "gpu", "per": "gpu_hour", "usd": usd, "cluster": "c8"}
        yield said("prices", "", EPOCH_MS, {**price, "effective_ms": EPOCH_MS + minute * MINUTE_MS})
    for record in _records(rng):
        yield said("controls", "", EPOCH_MS, record)
    for name in ("a0", "a1")[: rng.choice((1, 2))]:
        at_ms = EPOCH_MS + rng.randrange(1_000, 40_000)
        job = {
            "job_id": name,
            "attempt": 1,
            "team": TEAM,
            "owner": "amy",
            "gpu_count": rng.choice((2, 4)),
            **_CLUSTER,
        }
        yield said("jobs", name, at_ms, {**job, "type": "started"})
        if rng.random() < 0.3 and span_ms > MINUTE_MS:
            ends_ms = EPOCH_MS + MINUTE_MS + rng.randrange(20_000)
            yield said("jobs", name, ends_ms, {"job_id": name, "attempt": 1, "type": "completed"})
    for at_ms, event in _submitted_again(random.Random(rng.getstate()[1][0]), span_ms):
        yield said("jobs", event["job_id"], at_ms, event)
    for topic, after_ms, event in hour_stories.hour_stories(rng, remembers_hours=remembers_hours):
        key = event["job_id"] if topic == "jobs" else event["node"]
        yield said(topic, key, EPOCH_MS + after_ms, event)
    at_ms = EPOCH_MS + 2_000
    yield said("nodes", "f1", at_ms, {"node": "f1", "type": "provisioned", "gpu_count": 8, **_CLUSTER})


def _submitted_again(rng: random.Random, span_ms: int) -> Iterator[tuple[int, Json]]:
    """A run of some seeds that fails and is submitted again as another job, perhaps beside a third one."""
    if span_ms <= MINUTE_MS or rng.random() < 0.4:
        return
    at_ms, count = EPOCH_MS + rng.randrange(1_000, 10_000), rng.choice((2, 2, 3))
    for number in range(1, count + 1):
        if at_ms > EPOCH_MS + span_ms:
            return
        job = {"job_id": f"b-{number}", "attempt": 1}
        yield at_ms, {**job, "type": "started", "team": TEAM, "owner": "amy", "gpu_count": 8, **_CLUSTER}
        at_ms += rng.randrange(10_000, 30_000)
        if rng.random() < (0.3 if number == count else 0.95):
            yield at_ms, {**job, "type": rng.choice(("failed", "failed", "preempted", "completed"))}
        at_ms += rng.randrange(0, 10_000)


def _records(rng: random.Random) -> Iterator[Json]:
    usd = rng.choice(("3", "8", "20", "1000"))
    yield {
        "kind": "budget",
        "name": "month",
        "team": TEAM,
        "usd": usd,
        "per": "month",
        "actions": list(LADDER),
        "grace_s": 0,
    }
    yield {"kind": "budget", "name": "day", "team": TEAM, "usd": rng.choice(("3", "8")), "per": "day"}
    yield {
        "kind": "budget",
        "name": "run",
        "owner": "amy",
        "gpu_hours": rng.choice((0.05, 0.1)),
        "per": "run",
    }
    yield {"kind": "budget", "name": "clock", "team": TEAM, "wall_clock_hours": 0.03, "per": "total"}
    yield {"kind": "budget", "name": "all", "usd": rng.choice(("1", "50")), "per": "month"}
    yield {"kind": "rule", **BURN}
    yield {"kind": "rule", **FORGOTTEN}
    yield from ({"kind": "rule", **record} for record in hour_stories.RECORDS)
    yield from ({"kind": "receipt", "name": name, "on": True} for name in ("amy", "blue", "red"))
    yield {"kind": "receipt", "name": "team", "team": TEAM, "owner": "amy", "on": True}
    if rng.random() < 0.3:
        yield {
            "kind": "override", "name": "paper", "budget": "month", "until_ms": EPOCH_MS + 2 * MINUTE_MS, "reason": "a paper",
        }  # fmt: skip
