"""How far each rule about a job is from firing: its value, its threshold, and the share of the one in the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.rules.registry import BURN_RULES, JOB_RULES

_DEFAULTS: Final = {
    rule.name: {name: each.default for name, each in rule.thresholds.items()} for rule in JOB_RULES
}
_COLUMNS: Final = {
    5 * MINUTE_MS: "usd_per_hour",
    15 * MINUTE_MS: "usd_per_hour_15m",
    HOUR_MS: "usd_per_hour_1h",
    6 * HOUR_MS: "usd_per_hour_6h",
}
_RUNS: Final = frozenset({"starting", "running", "metered"})


class Distance(NamedTuple):
    """One condition of a rule; all conditions of a rule with the same `way` must hold, of several ways one is enough."""

    rule: str
    what: str
    value: float | None  # None: nothing is stored to tell it by
    threshold: float
    share: float | None  # 1 and more: the condition holds
    way: int = 0


class JobRows(NamedTuple):
    """Rows of one job at an instant."""

    at_ms: int
    job: Mapping[str, Any]
    rates: Mapping[str, Any] | None
    expected: Mapping[int, float]  # USD per hour by window (ms)
    paid_ms: Mapping[int, int]
    ledger: Mapping[str, Any]
    usage: Mapping[str, Any]
    attempts: Mapping[str, Any]
    purchases: Sequence[str]  # of the attempts, the newest first


def distances(facts: JobRows) -> list[Distance]:
    """Return the conditions of every rule about a job, in the order of the rules."""
    return [*_burn(facts), *_others(facts)]


def holding(found: Sequence[Distance]) -> set[str]:
    """Return the rules of which all conditions of some way hold."""
    ways: dict[tuple[str, int], bool] = {}
    for each in found:
        holds = each.share is not None and each.share >= 1
        ways[each.rule, each.way] = ways.get((each.rule, each.way), True) and holds
    return {rule for (rule, _), holds in ways.items() if holds}


def _burn(facts: JobRows) -> Iterator[Distance]:
    for rule in BURN_RULES:
        of = _DEFAULTS[rule.name]
        long, short = _ratio(facts, rule.long_ms), _ratio(facts, rule.short_ms)
        yield _above(rule.name, f"cost / expected over {_span(rule.long_ms)}", long, of["long_ratio"])
        yield _above(rule.name, f"cost / expected over {_span(rule.short_ms)}", short, of["short_ratio"])
        extra = None
        if facts.rates is not None and rule.long_ms in facts.expected:
            excess = float(facts.rates[_COLUMNS[rule.long_ms]]) - facts.expected[rule.long_ms]
            extra = excess * facts.paid_ms[rule.long_ms] / HOUR_MS
        what = f"dollars more than expected over {_span(rule.long_ms)}"
        yield _above(rule.name, what, extra, of["extra_usd"])


def _ratio(facts: JobRows, window_ms: int) -> float | None:
    if facts.rates is None:
        return None
    if window_ms == 15 * MINUTE_MS and facts.rates["ratio_15m"]:
        return float(facts.rates["ratio_15m"])
    expected = facts.expected.get(window_ms, 0.0)
    return float(facts.rates[_COLUMNS[window_ms]]) / expected if expected else None


def _others(facts: JobRows) -> Iterator[Distance]:
    at_ms, job, ledger = facts.at_ms, facts.job, facts.ledger
    yield _above("unpriced", "GPU-hours without a price", ledger["unpriced_gpu_h"], 0)
    yield _above("unpriced", "rows of traffic without a price", ledger["unpriced_traffic_rows"], 0, way=1)
    yield _above(
        "silent_job",
        "minutes without a sample or event",
        _silent_minutes(facts),
        _DEFAULTS["silent_job"]["minutes"],
    )
    retries = _DEFAULTS["retry_loop"]
    for way, (what, value) in enumerate(
        (
            ("failures", facts.attempts["failures"]),
            ("preemptions", facts.attempts["preemptions"]),
            ("lost_usd", ledger["lost_usd"]),
        )
    ):
        shown = {"failures": "attempts failed in an hour", "preemptions": "attempts preempted in an hour"}
        yield _above("retry_loop", shown.get(what, "dollars lost in an hour"), value, retries[what], way=way)
    productive = facts.usage["productive_ratio"]
    wanted = _DEFAULTS["idle_gpus"]["productive_ratio"]
    below = None if productive is None else wanted / productive if productive else float("inf")
    yield Distance("idle_gpus", "productive share in 30 min (fires below)", productive, wanted, below)
    started_ms, deadline_ms = job["started_ms"], job["deadline_ms"]
    runs = (
        started_ms is not None
        and started_ms <= at_ms
        and (job["ended_ms"] is None or job["ended_ms"] > at_ms)
    )
    hours = (at_ms - started_ms) / HOUR_MS if runs else None
    yield _above("runaway_length", "hours since it started", hours, _DEFAULTS["runaway_length"]["hours"])
    if deadline_ms:
        late = (at_ms - deadline_ms) / MINUTE_MS if runs else None
        yield _above("runaway_length", "minutes after its deadline", late, 0, way=1)
    traffic, timed = float(ledger["traffic_usd"]), float(ledger["timed_usd"])
    of = _DEFAULTS["traffic"]
    yield _above("traffic", "dollars of network and storage in an hour", traffic, of["usd_per_hour"])
    yield _above("traffic", "those / what accrues with time", traffic / timed if timed else None, of["ratio"])
    newest = facts.purchases[0] if facts.purchases else ""
    changes = sum(each != newest for each in facts.purchases)
    what = f"attempts before {newest or 'this one'} by another purchase"
    yield _above("price_basis", what, float(changes), 1)


def _silent_minutes(facts: JobRows) -> float | None:
    if facts.job["state"] not in _RUNS or not facts.usage["last_minute_ms"]:
        return None  # the rule is about running jobs that were heard of
    times = [facts.usage["last_minute_ms"] + MINUTE_MS, facts.job["started_ms"] or 0]
    if facts.job["last_event_ms"] <= facts.at_ms:
        times.append(facts.job["last_event_ms"])
    return max(0.0, float(facts.at_ms - max(times)) / MINUTE_MS)


def _above(rule: str, what: str, value: Any, threshold: float, *, way: int = 0) -> Distance:
    """Return a condition that holds from its threshold on; a threshold of 0: above it."""
    if value is None:
        return Distance(rule, what, None, threshold, None, way)
    number = float(value)
    share = number / threshold if threshold else float(number > 0)
    return Distance(rule, what, number, threshold, share, way)


def _span(ms: int) -> str:
    return f"{ms // HOUR_MS} h" if ms >= HOUR_MS else f"{ms // MINUTE_MS} min"
