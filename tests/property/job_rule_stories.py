"""Random lives of one job in which the rules about attempts, traffic, deadlines and prices come and go.

Must make the same log of the same seed; what is judged of it is for the judge to say.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.oracle.cases import T0, gpu, job, network, price
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.strategies.logs import time_of

M = MINUTE_MS
REASONS = ("out_of_memory", "node_failure", "user_error", "unknown")
PRICES = (
    price("spot", "1.8", match={"purchase": "spot"}),
    price("on_demand", "4.1", match={"purchase": "on_demand"}),
    price("reserved", "1.8", match={"purchase": "reserved"}),
    price("licence", "1.30", component="license", match={"instance_type": "p5-ai"}),
    price("out", "0.09", component="network", per="gb", match={"path": "internet"}),
    # It is off by default.
    Line(
        "controls",
        {"source": "r", "id": "on", "kind": "rule", "name": "unpriced", "time_ms": T0, "enabled": True},
    ),
)
RULES = (
    {"rule": "retry_loop", "thresholds": {"failures": 2, "lost_usd": 1000}},
    {"rule": "retry_loop", "thresholds": {"preemptions": 2, "lost_usd": 3}},
    {"rule": "traffic", "thresholds": {"usd_per_hour": 1, "ratio": 0.25, "page_usd_per_hour": 2}},
    {"rule": "runaway_length", "thresholds": {"hours": 1.5, "grace_minutes": 7}},
    {"rule": "price_basis", "thresholds": {"rise_ratio": 2.2}, "severity": "page"},
    {
        "rule": "price_basis",
        "thresholds": {"rise_ratio": 100, "instance_ratio": 1.4, "instance_usd_per_hour": 1},
    },
    {"rule": "silent_job", "thresholds": {"minutes": 4, "never_heard_minutes": 20}},
    {"rule": "unpriced", "thresholds": {"traffic": 0}},
    {"rule": "burn_fast", "thresholds": {"long_ratio": 1.2, "short_ratio": 1.3, "extra_usd": 0.05}},
    {"rule": "idle_gpus", "thresholds": {"productive_ratio": 0.5}},
    {"rule": "idle_gpus", "enabled": False},
    {"rule": "price_basis", "enabled": False},
    {"rule": "retry_loop", "enabled": False, "match": {"team": "red"}},
    {"rule": "traffic", "enabled": False, "label.stage": "train"},
)


def retries(rng: random.Random) -> list[Line]:
    """Attempts that break off soon, with another purchase now and then; it is completed in the end, or not."""
    lines, at_ms = list(PRICES), T0
    short = rng.random() < 0.4  # reclaimed again and again
    for attempt in range(1, 10 if short else rng.randrange(3, 10)):
        at_ms += rng.choice((1, 10, 3 * M) if short else (1, 10, 3 * M, 9 * M, 25 * M))
        kind = rng.choice(("started", "started", "allocated"))
        first = {"labels": {"stage": "train"}, "team": rng.choice(("red", "blue"))} if attempt == 1 else {}
        purchase = rng.choice(("spot", "spot", "on_demand", "reserved"))
        gpus = {"gpu_count": rng.choice((1, 8, 8, 64))} if attempt == 1 or rng.random() < 0.3 else {}
        apart = random.Random(at_ms)  # the other draws stay as they are
        on = {"instance_type": apart.choice(("p5", "p5", "p5-ai", "p4"))} if apart.random() < 0.6 else {}
        lines.append(job("j", kind, at_ms, attempt=attempt, purchase=purchase, **first, **gpus, **on))
        if apart.random() < 0.15:
            said = {"expected_usd_per_hour": apart.choice(("1.8", "14.4", "32.8", "262.4"))}
            lines.append(job("j", "updated", at_ms + apart.choice((0, M)), attempt=attempt, **said))
        if apart.random() < 0.1:
            lines.append(job("j", "updated", at_ms + 2 * M, attempt=attempt, purchase="on_demand"))
        if rng.random() < 0.3:
            lines.append(job("j", "checkpointed", at_ms + rng.randrange(5 * M), attempt=attempt))
        if rng.random() < 0.2:
            deadline = {"deadline_ms": at_ms + rng.choice((0, 17 * M, HOUR_MS))}
            lines.append(job("j", "updated", at_ms + 1, attempt=attempt, **deadline))
        at_ms += rng.choice((M, 7 * M) if short else (M, 7 * M, 20 * M, 45 * M))
        ends = ("failed", "failed", "preempted", "preempted", "", "completed")
        end = rng.choice(("preempted", "preempted", "preempted", "preempted", "completed") if short else ends)
        if end:
            lines.append(job("j", end, at_ms, attempt=attempt, reason=rng.choice(REASONS)))
    return lines


def moving(rng: random.Random) -> list[Line]:
    """A running job that moves bytes, of which some cost nothing that is known, and that may be heard."""
    purchase = rng.choice(("spot", "on_demand"))
    lines = [*PRICES, job("j", "started", T0, gpu_count=rng.choice((0, 1, 2)), purchase=purchase)]
    if rng.random() < 0.3:
        lines.append(job("j", "updated", T0 + M, deadline_ms=T0 + rng.choice((30, 90)) * M))
    at_ms = T0
    for _ in range(rng.randrange(1, 7)):
        at_ms += rng.choice((3, 20, 45)) * M + rng.randrange(M)
        path = rng.choice(("internet", "internet", "cross_zone"))
        amount = rng.choice((1, 10**9, 2 * 10**10, 10**11, 10**12))
        lines.append(network("j", at_ms, rng.choice((0, M, 30 * M)), bytes=amount, path=path))
        if rng.random() < 0.3:
            lines.append(gpu("j", at_ms, M, {"g0": 1.0}))
        if rng.random() < 0.2:
            lines.append(price("zone", "0", component="network", per="gb", time_ms=at_ms))
    if rng.random() < 0.5:
        lines.append(job("j", rng.choice(("completed", "failed")), at_ms + rng.randrange(40 * M)))
    return lines


def sampled(rng: random.Random) -> list[Line]:
    """A job that samples alone pay for, with pauses, and a deadline that an event without a start names."""
    lines, at_ms = [*PRICES, job("j", "updated", T0, purchase="spot", deadline_ms=T0 + 40 * M)], T0
    for number in range(rng.randrange(3, 40)):
        at_ms += rng.choice((M, M, M, M, 2 * M, 12 * M))
        lines.append(gpu("j", at_ms, M, {"g0": 0.5}, purchase="spot", id=f"s{number}"))
    return lines


def idle(rng: random.Random) -> list[Line]:
    """Sampled GPUs, with events of the job or without, that work for a while and do not for a while."""
    lines, at_ms, attempt = list(PRICES), T0, 1
    apart = random.Random(rng.getstate()[1][0])  # the other draws stay as they are
    joins_ms = T0 + apart.choice((20, 45, 60, 1_000)) * M  # then more GPUs appear
    starts = rng.random() < 0.7
    if starts:
        lines.append(job("j", "started", T0, gpu_count=rng.choice((1, 2, 5, 5)), purchase="spot"))
    for _ in range(rng.randrange(2, 5)):
        util = rng.choice((0, 0, 0.19, 0.2, 0.21, 0.4, 1.0))
        for _ in range(rng.randrange(2, 12)):
            at_ms += 5 * M
            if rng.random() < 0.95:
                end_ms = at_ms + rng.choice((0, 0, -1000, 20_000))
                lines.append(
                    gpu("j", end_ms, 5 * M, {"0": util, "1": util}, attempt=attempt, purchase="spot")
                )
            if at_ms > joins_ms:
                others = dict.fromkeys(("0", "1", "2", "3", "4"), apart.choice((0, 0, 0.2, 1.0)))
                lines.append(gpu("j", at_ms, 5 * M, others, attempt=attempt, node="n2", purchase="spot"))
        if starts and rng.random() < 0.3:
            lines.append(job("j", rng.choice(("suspended", "preempted")), at_ms))
            attempt += 1
            lines.append(job("j", "started", at_ms + rng.choice((0, 1, M)), attempt=attempt))
    return lines


def suspended(rng: random.Random) -> list[Line]:
    """A job beside the others that is suspended, with its GPUs or without, for about as long as matters, and goes on or not."""
    gpus, purchase = rng.choice((0.5, 1, 64, 8)), rng.choice(("spot", "on_demand"))
    at_ms = T0 + rng.randrange(5 * M)
    lines = [job("h", "started", at_ms, gpu_count=gpus, purchase=purchase, owner="h")]
    for _ in range(rng.choice((1, 1, 2))):
        at_ms += rng.choice((1, M, 7 * M))
        lines.append(job("h", "suspended", at_ms, holds_gpus=rng.random() < 0.8))
        if rng.random() < 0.4:
            lines.append(
                job("h", "scaled", at_ms + rng.choice((M, 4 * M)), gpu_count=rng.choice((0, 0.5, 2)))
            )
        if rng.random() < 0.2:
            lines.append(
                job("h", "suspended", at_ms + rng.choice((3 * M, 31 * M)), holds_gpus=rng.random() < 0.5)
            )
        at_ms += rng.choice((5 * M, 30 * M - 1, 30 * M + 10_000, 34 * M))
        lines.append(job("h", rng.choice(("resumed", "resumed", "completed", "preempted")), at_ms))
    if rng.random() < 0.5:
        limits = {"minutes": rng.choice((1, 2, 4.5)), "least_usd_per_hour": rng.choice((0, 0.9, 1.8, 4.2))}
        said = {"kind": "rule", "name": "held", "job_id": "h", "thresholds": limits}
        time_ms = T0 + rng.choice((0, 20 * M))
        lines.append(Line("controls", {"source": "r", "id": "held", "time_ms": time_ms} | said))
    return lines


def reporting(rng: random.Random) -> list[Line]:
    """A job beside the others that reports its progress, which stands still for about as long as matters, now and then."""
    gpus, purchase = rng.choice((1, 8, 8, 64)), rng.choice(("spot", "on_demand"))
    at_ms, step, attempt = T0 + rng.randrange(5 * M), 0, 1
    lines = [job("p", "started", at_ms, gpu_count=gpus, purchase=purchase, owner="p")]
    every_ms = rng.choice((M, 2 * M, 5 * M, 10 * M))
    for _ in range(rng.choice((2, 3, 4))):
        for _ in range(rng.randrange(1, 8)):  # it moves
            at_ms += every_ms
            step += rng.choice((0, 1, 1, 100))
            said: dict[str, float] = {"step": step} if rng.random() < 0.9 else {"tokens": 7.5 * step}
            lines.append(job("p", "heartbeat", at_ms, attempt=attempt, progress=said))
        for _ in range(rng.choice((0, 1, 3, 16, 32, 55)) * M // every_ms + rng.randrange(2)):  # it does not
            at_ms += every_ms
            kind = "heartbeat" if rng.random() < 0.97 else "checkpointed"
            late_ms = rng.choice((0, 0, 0, 0, 3 * M))
            lines.append(job("p", kind, at_ms - late_ms, attempt=attempt, progress={"step": step}))
        if rng.random() < 0.2:
            at_ms += M
            kind = rng.choice(("suspended", "preempted", "scaled"))
            lines.append(
                job("p", kind, at_ms, attempt=attempt, **({"gpu_count": 4} if kind == "scaled" else {}))
            )
            attempt += kind == "preempted"
            if kind != "scaled":
                lines.append(job("p", "started", at_ms + 2 * M, attempt=attempt, purchase=purchase))
            for _ in range(rng.choice((0, 3, 9, 18))):  # nor afterwards
                at_ms += every_ms
                lines.append(job("p", "heartbeat", at_ms, attempt=attempt, progress={"step": step}))
    if rng.random() < 0.7:
        lines.append(job("p", "completed", at_ms + rng.choice((1, 6 * M)), attempt=attempt))
    if rng.random() < 0.6:
        limits = {
            "minutes": rng.choice((1, 2, 4.5, 15)),
            "usual_times": rng.choice((1, 2, 6)),
            "least_usd": rng.choice((0, 0.5, 4)),
            "least_usd_per_hour": rng.choice((0, 1, 14.4, 20)),
        }
        limits = {name: value for name, value in limits.items() if rng.random() < 0.7}
        said_of = {"kind": "rule", "name": "stalled", "job_id": "p", "thresholds": limits}
        time_ms = T0 + rng.choice((0, 20 * M))
        lines.append(Line("controls", {"source": "r", "id": "stalled", "time_ms": time_ms} | said_of))
    return lines


def falling(rng: random.Random) -> list[Line]:
    """A job on two nodes whose GPUs work and fall to nothing, all or not all, for about as long as matters."""
    labels = {"interactive": rng.choice(("true", "no"))} if rng.random() < 0.2 else {}
    purchase = rng.choice(("spot", "on_demand", "on_demand"))
    lines = [job("f", "started", T0, gpu_count=4, purchase=purchase, owner="f", labels=labels)]
    at_ms, every_ms = T0, rng.choice((2 * M, 2 * M, 5 * M))
    first = random.Random(rng.getstate()[1][2])
    for _ in range(first.choice((0, 0, 8, 20, 40)) * M // every_ms):  # hangs at first
        at_ms += every_ms
        use = dict.fromkeys(("0", "1"), first.choice((0, 0, 0, 0.03)))
        lines += [gpu("f", at_ms, every_ms, use, node=node, purchase=purchase) for node in ("f1", "f2")]
    spins = random.Random(rng.getstate()[1][1]).choice((None, None, 0.0, 0.015, 0.5))
    for _ in range(rng.choice((1, 2, 2))):
        utils = rng.choice(((0.9, 0.9), (0.9, 0.9), (0.9, 0.9), (0.4, 0.7), (0.9, 0.0)))
        rest = rng.choice(((0, 0), (0, 0), (0.01, 0.01), (0.03, 0), (0.02, 0.02), (0.15, 0.19)))
        for values, minutes in ((utils, (6, 10, 14, 20)), (rest, (4, 11, 14, 19, 40, 70))):
            for _ in range(rng.choice(minutes) * M // every_ms):
                at_ms += every_ms
                for node, util in zip(("f1", "f2"), values, strict=True):
                    if rng.random() < 0.97:
                        use = dict.fromkeys(("0", "1") if rng.random() < 0.9 else ("0",), util)
                        waits = {}
                        if spins is not None:
                            waits["sm_ratio"] = [0.5 * util if values is utils else spins] * len(use)
                        lines.append(gpu("f", at_ms, every_ms, use, node=node, purchase=purchase, **waits))
    if rng.random() < 0.3:
        lines.append(job("f", rng.choice(("suspended", "completed")), at_ms - 7 * M))
    limits = {
        "minutes": rng.choice((10, 20, 45)),
        "interactive_minutes": rng.choice((15, 60)),
        "least_usd": rng.choice((0, 0.5, 2)),
        "fallen_minutes": rng.choice((5, 9, 30)),
    }
    limits = {name: value for name, value in limits.items() if rng.random() < 0.5}
    apart = random.Random(rng.getstate()[1][0])  # the other draws stay as they are
    if apart.random() < 0.5:
        limits["gpu_minutes"] = apart.choice((10, 15, 30))
    if apart.random() < 0.7:
        limits["start_minutes"] = apart.choice((5, 9, 20))
    limits["page_usd_per_hour"] = rng.choice((0, 5, 10, 10, 100))
    said = {"kind": "rule", "name": "idle_gpus", "job_id": "f", "thresholds": limits}
    lines.append(Line("controls", {"source": "r", "id": "idle", "time_ms": T0} | said))
    return lines


def growing_old(rng: random.Random) -> list[Line]:
    """A job beside the others that is too old, by a deadline or its age, and whose attempts and pauses go on for long."""
    at_ms = T0 + rng.randrange(5 * M)
    lines = [job("r", "started", at_ms, gpu_count=1, purchase="spot", owner="r")]
    limits = {"hours": rng.choice((0.1, 0.2, 0.3)), "grace_minutes": rng.choice((0, 3))}
    said = {"kind": "rule", "name": "old", "rule": "runaway_length", "job_id": "r", "thresholds": limits}
    lines.append(Line("controls", {"source": "r", "id": "old", "time_ms": T0} | said))
    for attempt in range(1, rng.randrange(3, 8)):
        if rng.random() < 0.25:
            deadline = {"deadline_ms": at_ms + rng.choice((0, 3, 11)) * M}
            lines.append(job("r", "updated", at_ms + 1, attempt=attempt, **deadline))
        at_ms += rng.choice((2, 5, 11, 23)) * M
        end = rng.choice(("preempted", "preempted", "failed", "suspended"))
        lines.append(job("r", end, at_ms, attempt=attempt))
        if rng.random() < 0.15:
            off = {"id": f"off{attempt}", "time_ms": at_ms, "enabled": rng.random() < 0.5}
            lines.append(Line("controls", {"source": "r"} | said | off))
        at_ms += rng.choice((1, 4, 9, 11, 17, 31)) * M
        lines.append(job("r", "started", at_ms, attempt=attempt + 1))
    if rng.random() < 0.5:
        lines.append(job("r", "completed", at_ms + 6 * M, attempt=attempt + 1))
    return lines


def breaking_slowly(rng: random.Random) -> list[Line]:
    """A job beside the others whose attempts take about an hour or two until they fail, having saved something or not."""
    gpus, at_ms = rng.choice((8, 24, 32, 64)), T0 + rng.randrange(5 * M)
    lines: list[Line] = []
    for attempt in range(1, rng.choice((3, 3, 4))):
        held = {"gpu_count": gpus, "purchase": "on_demand", "owner": "s"}
        lines.append(job("s", "started", at_ms, attempt=attempt, **held))
        length_ms = rng.choice((20, 59, 61, 70, 125)) * M
        if rng.random() < 0.4:
            saved_ms = rng.choice((5 * M, length_ms // 2, length_ms - 5 * M))
            lines.append(job("s", "checkpointed", at_ms + saved_ms, attempt=attempt))
        at_ms += length_ms
        end = rng.choice(("failed", "failed", "failed", "failed", "preempted", ""))
        if end:
            lines.append(job("s", end, at_ms, attempt=attempt))
        at_ms += rng.choice((1, 3 * M, 20 * M))
    if rng.random() < 0.3:
        lines.append(job("s", "completed", at_ms, attempt=attempt))
    if rng.random() < 0.5:
        limits = {"slow_hours": rng.choice((1.5, 2, 12)), "slow_usd_per_hour": rng.choice((20, 60, 120))}
        said = {"kind": "rule", "name": "slow", "rule": "retry_loop", "job_id": "s", "thresholds": limits}
        lines.append(Line("controls", {"source": "r", "id": "slow", "time_ms": T0} | said))
    return [*lines, job("late", "queued", at_ms + rng.choice((M, 70 * M, 200 * M)))]


def resting(rng: random.Random) -> list[Line]:
    """A job of which single GPUs work now and then, or never, while others do, on one node or on two."""
    nodes = rng.choice((("u1",), ("u1", "u2")))
    purchase = rng.choice(("spot", "on_demand"))
    lines = [job("u", "started", T0, gpu_count=4 * len(nodes), purchase=purchase, owner="u")]
    at_ms, every_ms, attempt = T0, rng.choice((2 * M, 5 * M)), 1
    for _ in range(rng.choice((1, 2, 3))):
        resting_gpus = {(node, gpu) for node in nodes for gpu in "0123" if rng.random() < 0.3}
        for _ in range(rng.choice((6, 14, 25, 40)) * M // every_ms):
            at_ms += every_ms
            for node in nodes:
                use = {
                    gpu: rng.choice((0, 0.019, 0)) if (node, gpu) in resting_gpus else 0.9 for gpu in "0123"
                }
                if rng.random() < 0.95:
                    shown = dict(rng.sample([*use.items()], rng.choice((4, 4, 4, 3))))
                    lines.append(
                        gpu(
                            "u",
                            at_ms - rng.choice((0, 0, M, 4 * M)),
                            every_ms,
                            shown,
                            node=node,
                            attempt=attempt,
                            purchase=purchase,
                        )
                    )
        if rng.random() < 0.25:
            lines.append(job("u", "preempted", at_ms, attempt=attempt))
            attempt += 1
            lines.append(job("u", "started", at_ms + M, attempt=attempt, purchase=purchase))
    limits = {"gpu_minutes": rng.choice((10, 16, 30)), "least_usd": rng.choice((0, 0.1, 1))}
    said = {"kind": "rule", "name": "idle_gpus", "job_id": "u", "thresholds": limits}
    return [*lines, Line("controls", {"source": "r", "id": "rests", "time_ms": T0} | said)]


def slowing(rng: random.Random) -> list[Line]:
    """A job beside the others that works at one speed and then at another, with pauses, restarts and other sizes between."""
    gpus, purchase = rng.choice((1, 8, 8, 64)), "on_demand"
    at_ms, attempt, done = T0 + rng.randrange(5 * M), 1, 0.0
    lines = [job("v", "started", at_ms, gpu_count=gpus, purchase=purchase, owner="v")]
    every_ms, name = rng.choice((M, 5 * M, 12 * M)), rng.choice(("step", "tokens", "rows"))
    usual = rng.choice((6.0, 100.0))
    phases = [
        (usual, 75),
        *((usual / rng.choice((1, 2, 2.4, 2.5, 2.6, 4)), rng.choice((15, 45, 60, 95))) for _ in "abc"),
    ]
    for speed, minutes in phases:
        for _ in range(minutes * M // every_ms):
            at_ms += every_ms
            done += speed * rng.choice((0, 1, 1, 1, 1.5)) if rng.random() < 0.3 else speed
            said: dict[str, float] = {name: done}
            if rng.random() < 0.1:
                said = rng.choice(({}, {"epoch": done / 1000}, {name: done, "epoch": done}))
            late_ms = rng.choice((0, 0, 0, 0, 0, 3 * M))
            lines.append(job("v", "heartbeat", at_ms - late_ms, attempt=attempt, progress=said))
        chance = rng.random()
        if chance < 0.1:
            lines.append(
                job("v", "scaled", at_ms + 1, attempt=attempt, gpu_count=rng.choice((gpus, 2 * gpus)))
            )
        elif chance < 0.2:
            lines.append(job("v", "suspended", at_ms + 1, attempt=attempt, holds_gpus=rng.random() < 0.5))
            at_ms += rng.choice((M, 20 * M))
            lines.append(job("v", "resumed", at_ms, attempt=attempt))
        elif chance < 0.35:
            lines.append(job("v", "failed", at_ms + 1, attempt=attempt))
            at_ms, attempt, done = at_ms + rng.choice((M, 20 * M)), attempt + 1, done * rng.choice((1, 0.9))
            size = {"gpu_count": rng.choice((gpus, gpus, 4))} if rng.random() < 0.7 else {}
            lines.append(job("v", "started", at_ms, attempt=attempt, purchase=purchase, **size))
        elif chance < 0.5:
            at_ms += rng.choice((14 * M, 40 * M))  # it evaluates
    if rng.random() < 0.5:
        lines.append(job("v", "completed", at_ms + rng.choice((1, 6 * M)), attempt=attempt))
    limits = {
        "minutes": rng.choice((10, 20, 40, 41)),
        "times": rng.choice((2, 2.4, 2.5, 3)),
        "least_usd": rng.choice((0, 4, 10)),
        "least_usd_per_hour": rng.choice((0, 1, 20)),
        "page_usd_per_hour": rng.choice((20, 100)),
    }
    limits = {name: value for name, value in limits.items() if rng.random() < 0.4}
    said_of = {"kind": "rule", "name": "slow_progress", "job_id": "v", "thresholds": limits}
    return [*lines, Line("controls", {"source": "r", "id": "slowing", "time_ms": T0} | said_of)]


def beating(rng: random.Random) -> list[Line]:
    """A job beside the others that sends heartbeats now and then, with samples in part of the time, and then no more."""
    at_ms, attempt = T0 + rng.randrange(5 * M), 1
    lines = [job("w", "started", at_ms, gpu_count=rng.choice((1, 8, 64)), purchase="on_demand", owner="w")]
    for _ in range(rng.choice((1, 2, 3))):
        every_ms, count = rng.choice((M, 4 * M, 7 * M, 20 * M)), rng.choice((1, 1, 2, 4, 6))
        for _ in range(count):
            at_ms += every_ms + rng.choice((0, 0, -30_000, 3 * M, 25 * M))
            late_ms = rng.choice((0, 0, 0, 0, 9 * M))
            lines.append(job("w", "heartbeat", at_ms - late_ms, attempt=attempt))
            if rng.random() < 0.15:
                use = {"0": 0.9}
                on = {"attempt": attempt, "purchase": "on_demand"}
                lines.append(gpu("w", at_ms + rng.choice((M, 5 * M)), M, use, id=f"w{at_ms}", **on))
        chance = rng.random()
        if chance < 0.25:
            lines.append(job("w", "suspended", at_ms + 1, attempt=attempt, holds_gpus=True))
            at_ms += rng.choice((M, 30 * M))
            lines.append(job("w", "resumed", at_ms, attempt=attempt))
        elif chance < 0.5:
            lines.append(job("w", "failed", at_ms + 1, attempt=attempt))
            at_ms, attempt = at_ms + M, attempt + 1
            lines.append(job("w", "started", at_ms, attempt=attempt, purchase="on_demand"))
    lines.append(job("w", "cancelled", at_ms + rng.choice((5 * M, 40 * M, 70 * M)), attempt=attempt))
    limits = {
        "minutes": rng.choice((3, 9, 15)),
        "usual_times": rng.choice((1, 2, 4)),
        "first_minutes": rng.choice((5, 20, 60)),
        "page_usd_per_hour": rng.choice((20, 100)),
    }
    limits = {name: value for name, value in limits.items() if rng.random() < 0.3}
    said_of = {"kind": "rule", "name": "silent_job", "job_id": "w", "thresholds": limits}
    return [*lines, Line("controls", {"source": "r", "id": "beating", "time_ms": T0} | said_of)]


KINDS = (retries, retries, moving, moving, sampled)


#: Jobs beside the others in a share of the logs; each draws by its own name, so that the others stay as they are.
BESIDE: Final[Mapping[str, tuple[float, Callable[[random.Random], list[Line]]]]] = {
    "held": (0.4, suspended),
    "fallen": (0.25, falling),
    "stalled": (0.4, reporting),
    "runaway_length": (0.3, growing_old),
    "resting": (0.2, resting),
    "slow": (0.15, breaking_slowly),
    "slow_progress": (0.15, slowing),
    "silent_job": (0.15, beating),
}
#: Those only where jobs idle.
OF_IDLE: Final = (falling, resting)


def story(seed: int, kinds: Sequence[Callable[[random.Random], list[Line]]] = (*KINDS, idle)) -> list[Line]:
    """The log of a seed, by event time; some records of rules come in between."""
    rng = random.Random(seed)
    lines = rng.choice(kinds)(rng)
    last_ms = max(map(time_of, lines))
    for number in range(rng.choice((0, 0, 1, 2, 4))):
        said = {"kind": "rule", "name": f"r{number % 3}", "time_ms": T0 + rng.randrange(last_ms - T0 + M)}
        lines.append(Line("controls", {"source": "r", "id": f"{number}"} | said | rng.choice(RULES)))
    apart = random.Random(seed)  # the other draws stay as they are
    if apart.random() < 0.4:
        limits = {"hours": apart.choice((0.1, 0.2, 0.5)), "least_usd": apart.choice((0, 0.5, 2, 10))}
        said = {"kind": "rule", "name": "saved", "rule": "no_checkpoint", "job_id": "j", "thresholds": limits}
        lines.append(Line("controls", {"source": "r", "id": "saved", "time_ms": T0} | said))
    if apart.random() < 0.4:
        limit = {"usd_per_hour": apart.choice((1.8, 14.4, 32.8, 100))}
        said = {"kind": "rule", "name": "most", "rule": "ceiling", "job_id": "j", "thresholds": limit}
        lines.append(Line("controls", {"source": "r", "id": "most", "time_ms": T0} | said))
    lines.append(job("other", "queued", last_ms + rng.choice((M, 30 * M, 100 * M))))
    for name, (share, begin) in BESIDE.items():
        own = random.Random(f"{name} {seed}")
        if (idle in kinds or begin not in OF_IDLE) and own.random() < share:
            lines += begin(own)
    return sorted(lines, key=time_of)
