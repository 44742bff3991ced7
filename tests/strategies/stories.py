"""The stories of single jobs: steady, scaled, repriced, retried, suspended, bursting, metered, planned, wild.

Must owe an alert only where plain arithmetic, written beside it, leaves no doubt.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.model import HOUR_MS, MINUTE_MS, Json
from tests.strategies.telling import TICK_MS, USD, Teller, gpu_type


def steady(tell: Teller, job: str) -> None:
    """As expected from beginning to end: nothing may fire, whatever the retries, suspensions and heartbeats."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((1, 4, 8, 64))
    begin_ms, end_ms = tell.part(0, 0.2), tell.part(0.8, 0.95)
    expected = rng.choice(
        ({}, {"expected_usd_per_hour": usd * gpus}, {"expected_usd_per_hour": f"{usd * gpus:.6f}"})
    )
    kind = rng.choice(("allocated", "started"))
    tell.begin(job, begin_ms, usd=usd, kind=kind, gpu_count=gpus, **expected)
    attempt, at_ms = 1, _running_from(tell, job, begin_ms, 1, kind)
    while (at_ms := tell.instant(at_ms + MINUTE_MS, at_ms + 40 * MINUTE_MS)) < end_ms - 25 * MINUTE_MS:
        what = rng.choice(("heartbeat", "checkpointed", "suspended", "held", "preempted", "started"))
        if what == "preempted":
            tell.job(job, rng.choice(("preempted", "failed")), at_ms, attempt=attempt)
            attempt, at_ms = attempt + 1, at_ms + rng.randrange(20 * MINUTE_MS)
            kind = rng.choice(("allocated", "started"))
            tell.job(job, kind, at_ms, attempt=attempt)
            at_ms = _running_from(tell, job, at_ms, attempt, kind)
        elif what in ("suspended", "held"):
            tell.job(job, "suspended", at_ms, attempt=attempt, holds_gpus=what == "held")
            at_ms += rng.randrange(20 * MINUTE_MS)
            tell.job(job, "resumed", at_ms, attempt=attempt)
        else:
            tell.job(job, what, at_ms, attempt=attempt)
    tell.end(job, end_ms, attempt=attempt)
    tell.trace.quiet.add(job)


def _running_from(tell: Teller, job: str, at_ms: int, attempt: int, kind: str) -> int:
    """When an attempt runs that has been given its GPUs: within 20 min."""
    if kind == "allocated":
        at_ms += tell.rng.randrange(20 * MINUTE_MS)
        tell.job(job, "started", at_ms, attempt=attempt)
    return at_ms


def scaled(tell: Teller, job: str) -> None:
    """Scaled out, by 2 to 10, declared or not; now and then back and out again."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((0.5, 1, 1, 8, 16))
    begin_ms = tell.part(0, 0.1)
    out_ms, end_ms = max(tell.part(0.2, 0.5), begin_ms + 6 * MINUTE_MS), tell.part(0.85, 0.98)
    factor = rng.choice((2, 3, 4, 5, 8, 9, 10))
    is_declared = rng.random() < 0.3
    word = {"expected_usd_per_hour": usd * gpus * factor} if is_declared else {}
    tell.begin(job, begin_ms, usd=usd, gpu_count=gpus)
    tell.job(job, "scaled", out_ms, gpu_count=gpus * factor, **word)
    if rng.random() < 0.3 and not is_declared:
        back_ms = tell.instant(out_ms + MINUTE_MS, (out_ms + end_ms) // 2)
        again_ms = min(back_ms + rng.choice((4, 9, 12, 25, 70)) * MINUTE_MS, end_ms - 1)
        tell.job(job, "scaled", back_ms, gpu_count=gpus)
        tell.job(job, "scaled", again_ms, gpu_count=gpus * factor)
    elif is_declared:
        tell.trace.quiet.add(job)
    else:
        owe_step(tell, job, begin_ms, out_ms, end_ms, factor, usd * gpus)
    tell.end(job, end_ms, always=True)


def owe_step(
    tell: Teller, job: str, begin_ms: int, out_ms: int, end_ms: int, factor: int, usd_per_hour: float
) -> None:
    """What a step to so many times the expected rate owes, if it lasts and a dollar comes together soon."""
    before_ms, after_ms = out_ms - begin_ms, end_ms - out_ms
    if usd_per_hour < 8:
        return
    # A window L reaches the threshold T after L (T - 1) / (r - 1) at most: for r = 8 the 5 min reach 6 in 215 s.
    if factor >= 8 and after_ms >= 8 * MINUTE_MS:
        tell.trace.must.add(("burn_fast", job))
    # r = 3 to 5 never reach 6; 1 h reaches 2.1 after 33 min at r = 3, and 15 min are behind it then.
    if 3 <= factor <= 5 and after_ms >= 45 * MINUTE_MS:
        tell.trace.must.add(("burn_sustained", job))
    # (before + 2 after) / (before + after) >= 1.5 as soon as after >= before, and 1 h reaches 1.5 after 30 min;
    # it opens only while the whole of that hour was paid.
    lasts = after_ms >= max(before_ms, 31 * MINUTE_MS) + 5 * MINUTE_MS
    if factor == 2 and lasts and before_ms + after_ms >= 65 * MINUTE_MS and before_ms < 3 * HOUR_MS:
        tell.trace.must.add(("burn_drift", job))


def repriced(tell: Teller, job: str) -> None:
    """A revision in the middle, in time or late; the expected rate stays the one quoted at the start."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((8, 16))
    tell.price(job, usd)
    begin_ms, end_ms = tell.part(0, 0.1), tell.part(0.85, 0.98)
    effective_ms = tell.part(0.3, 0.4)
    factor = rng.choice((2, 3, 4, 8, 9))
    late_ms = rng.choice((0, 0, 90_000, 15 * MINUTE_MS))
    tell.begin(job, begin_ms, gpu_count=gpus)
    tell.price(job, usd * factor, effective_ms=effective_ms, comes_ms=effective_ms + late_ms)
    if late_ms < 10 * MINUTE_MS and effective_ms - begin_ms > 6 * MINUTE_MS:
        owe_step(tell, job, begin_ms, effective_ms, end_ms - late_ms, factor, usd * gpus)
    tell.end(job, end_ms, always=True)


def bursting(tell: Teller, job: str) -> None:
    """Traffic that costs many times what the GPUs do for a while, or a lump of an hour reported at once."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((4, 8))
    begin_ms, end_ms = tell.part(0, 0.1), tell.part(0.9, 0.98)
    from_ms = max(tell.part(0.3, 0.6), begin_ms + 10 * MINUTE_MS)
    tell.begin(job, begin_ms, usd=usd, gpu_count=gpus)
    minute_usd, minutes, times = usd * gpus / 60, rng.choice((3, 12, 30)), rng.choice((3, 12, 20))
    interval_ms = rng.choice((0, 60_000, 60_000, HOUR_MS))
    for number in range(minutes):
        amount = int(times * minute_usd / 0.09 * 10**9)
        traffic: Json = {"job_id": job, "path": "internet", "direction": "egress", "bytes": amount}
        tell.say("network", from_ms + (number + 1) * MINUTE_MS, interval_ms=interval_ms, **traffic)
    if rng.random() < 0.3:
        stored: Json = {"job_id": job, "op": "stored", "bytes": rng.randrange(2**53)}
        tell.say("storage", from_ms, interval_ms=rng.choice((MINUTE_MS, 30 * MINUTE_MS)), **stored)
    # 12 times the GPUs' cost for 12 min are more than those of an hour; in the first one they are its start.
    lasts = minutes >= 12 and interval_ms <= 60_000 and end_ms > from_ms + 12 * MINUTE_MS
    has_started = from_ms >= begin_ms + HOUR_MS and end_ms > from_ms + 35 * MINUTE_MS
    if times >= 12 and lasts and has_started and minute_usd >= 0.15:
        tell.trace.must.add(("traffic", job))
    tell.end(job, end_ms)


def metered(tell: Teller, job: str) -> None:
    """Known by samples alone, on more GPUs later; now and then its lifecycle comes after all."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((2, 4))
    interval_ms = rng.choice((TICK_MS, 30_000, 60_000))
    most_ms = {TICK_MS: 24, 30_000: 50, 60_000: 100}[interval_ms] * MINUTE_MS
    begin_ms = tell.part(0, 0.3) // TICK_MS * TICK_MS
    end_ms = min(begin_ms + most_ms, tell.end_ms - MINUTE_MS)
    out_ms = begin_ms + (end_ms - begin_ms) * rng.choice((3, 5)) // 10
    factor, offset_ms = rng.choice((1, 3, 8)), rng.choice((0, 0, 0, 3_500))
    is_clean = offset_ms == 0 and rng.random() < 0.7
    for time_ms in range(begin_ms + interval_ms + offset_ms, end_ms, interval_ms):
        count = gpus * (factor if time_ms - interval_ms >= out_ms else 1)
        names = [f"g{number}" for number in range(count)]
        tell.say(
            "gpu", time_ms, time_ms if is_clean else None, job_id=job, node="n1", interval_ms=interval_ms,
            gpus=names, util_ratio=[0.5] * count, gpu_type=gpu_type(usd),
        )  # fmt: skip
    if factor == 8 and is_clean and usd * gpus >= 8 and end_ms - out_ms > 10 * MINUTE_MS:
        if out_ms - begin_ms > 5 * MINUTE_MS:
            tell.trace.must.add(("burn_fast", job))
    elif factor == 1 and is_clean:
        tell.trace.quiet.add(job)
    if not is_clean and rng.random() < 0.3:
        tell.begin(job, end_ms, usd=usd, kind="started", gpu_count=gpus)
        tell.end(job, min(end_ms + 20 * MINUTE_MS, tell.end_ms), always=True)


def unpriced(tell: Teller, job: str) -> None:
    """GPUs without a price: it comes later and covers all or a part, or never."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((1, 8))
    begin_ms, end_ms = tell.part(0, 0.2), tell.part(0.6, 0.8)
    tell.begin(job, begin_ms, gpu_count=gpus)
    middle_ms = tell.part(0.3, 0.5)
    tell.job(job, "scaled", middle_ms, gpu_count=gpus * rng.choice((1, 2, 8)))
    comes_ms = tell.part(0.3, 0.95)
    way = rng.choice(("all", "all", "part", "never"))
    if way != "never":
        effective_ms = 0 if way == "all" else tell.instant(begin_ms + 1, comes_ms + 1)
        tell.price(job, usd, effective_ms=effective_ms, comes_ms=comes_ms)
    tell.trace.must.add(("unpriced", job))
    tell.end(job, end_ms)


def underestimated(tell: Teller, job: str) -> None:
    """Declared at a third of what it costs, corrected later or not."""
    rng, usd, gpus = tell.rng, tell.rng.choice(USD), tell.rng.choice((8, 16))
    begin_ms, end_ms = tell.part(0, 0.1), tell.part(0.85, 0.95)
    tell.begin(job, begin_ms, usd=usd, gpu_count=gpus, expected_usd_per_hour=usd * gpus / 3)
    if rng.random() < 0.4:
        tell.job(job, "updated", tell.part(0.5, 0.8), expected_usd_per_hour=f"{usd * gpus:.9f}")
    tell.trace.must.add(("burn_sustained", job))  # 15 min at 3 times the rate, from the first instant on
    tell.end(job, end_ms)


def controlled(tell: Teller, job: str) -> None:
    """A tenfold step under a control: planned, planned for a part of it, or silenced."""
    rng, usd, gpus, factor = tell.rng, tell.rng.choice(USD), tell.rng.choice((8, 16)), 10
    begin_ms, end_ms = tell.part(0, 0.1), tell.part(0.85, 0.95)
    out_ms = max(tell.part(0.3, 0.5), begin_ms + 6 * MINUTE_MS)
    said_ms = rng.choice((tell.begin_ms, begin_ms + 1, tell.instant(out_ms, end_ms)))
    match = rng.choice(
        ({"job_id": job}, {"job": job}, {"project": tell.name, "account": job}, {"match": {"job_id": job}})
    )
    way = rng.choice(("planned", "in part", "silence"))
    control: Json = {"name": f"{way}-{job}", "kind": "silence" if way == "silence" else "planned", **match}
    if way == "silence":
        control |= rng.choice(({}, {"rule": "burn_fast"}, {"severity": "page"}, {"owner": "bob"}))
    else:
        control["usd_per_hour"] = usd * gpus * factor
    if way == "in part" or rng.random() < 0.5:
        control |= {
            "from_ms": out_ms,
            "until_ms": tell.instant(out_ms, end_ms) if way == "in part" else end_ms,
        }
    tell.begin(job, begin_ms, usd=usd, gpu_count=gpus)
    tell.say("controls", said_ms, said_ms, **control)
    if rng.random() < 0.2:  # a control with the smaller name, of a rate that is as good
        other = {**control, "name": f"a-{control['name']}"}
        tell.say("controls", said_ms, said_ms, **other)
    tell.job(job, "scaled", out_ms, gpu_count=gpus * factor)
    if way == "planned" and control.get("from_ms") is not None and said_ms < out_ms:
        tell.trace.quiet.add(job)
    if way == "silence":
        owe_step(tell, job, begin_ms, out_ms, end_ms, factor, usd * gpus)
    tell.end(job, end_ms, always=True)


Story = Callable[[Teller, str], None]
