"""What an attack came to: one figure after the other beside the quiet time before it, and the limits that it is held to.

What was not measured is not within its limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from loadtest.abuse_honest import UNANSWERED, Seen
from loadtest.abuse_live import Probe
from loadtest.stopwatch import percentile

LIVE_P99_MS: Final = 2_000
RSS_MORE_MIB: Final = 300
HEALTH_MS: Final = 1_000
STOP_S: Final = 10.0
QUERIES_STOP_S: Final = 2.0


class Spread(NamedTuple):
    """Times in ms of what was asked; one that never came is infinite, and a fault is none of them."""

    asked: int
    right: int  # answered, and as it should be
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


def spread_of(asked: int, right_ms: Sequence[float]) -> Spread:
    """The spread of the times of right answers."""
    ordered = sorted(right_ms)
    if not ordered:
        return Spread(asked, 0, None, None, None)
    return Spread(
        asked,
        sum(map(math.isfinite, ordered)),
        percentile(ordered, 50),
        percentile(ordered, 99),
        ordered[-1],
    )


def live(probes: Sequence[Probe]) -> Spread:
    """How long jobs took to be readable; one that never was counts as endless."""
    return spread_of(len(probes), [math.inf if each.ms is None else each.ms for each in probes])


def worst_ms(probes: Sequence[Probe], begin_s: float, every_s: float = 5.0) -> list[float]:
    """The longest time of each few seconds of a phase, in turn: the onset of an attack differs from the rest."""
    found: dict[int, float] = {}
    for each in probes:
        turn = int((each.at_s - begin_s) // every_s)
        found[turn] = max(found.get(turn, 0.0), math.inf if each.ms is None else each.ms)
    return [round(found[turn], 1) for turn in sorted(found)]


def answers(seen: Sequence[Seen], what: str) -> Spread:
    """The spread of one kind of honest question."""
    asked = [each for each in seen if each.what == what and not _is_fresh(each)]
    return spread_of(len(asked), [each.ms for each in asked if each.outcome == "200"])


def _is_fresh(each: Seen) -> bool:
    """Whether the run ended too early to say anything of it."""
    return each.outcome == UNANSWERED and each.ms < HEALTH_MS


def outcomes(seen: Sequence[Seen], what: str) -> dict[str, int]:
    """How one kind of honest question ended."""
    return dict(Counter(each.outcome for each in seen if each.what == what))


class Verdict(NamedTuple):
    """One limit, and whether it held."""

    name: str
    limit: str
    found: str
    ok: bool


def verdicts(figures: Mapping[str, Any]) -> list[Verdict]:
    """Hold the figures to every limit."""
    attack, stop = figures["attack"], figures["stop"]
    health: Spread = attack["healthz"]
    live_p99_ms, more_mib = attack["live"].p99_ms, attack["rss_mib"] - figures["baseline"]["rss_mib"]
    health_ms = health.max_ms
    return [
        Verdict("the worker lives", "the same process", _alive(figures), bool(figures["alive"])),
        Verdict(
            "/healthz", f"each answers 200 within {HEALTH_MS:,} ms", f"{health.right} of {health.asked}, {in_ms(health_ms)} at most",
            health.asked == health.right > 0 and _within(health_ms, HEALTH_MS),
        ),
        Verdict("live p99", f"< {LIVE_P99_MS:,} ms", in_ms(live_p99_ms), _within(live_p99_ms, LIVE_P99_MS)),
        Verdict("memory of the worker", f"+{RSS_MORE_MIB} MiB at most", f"{more_mib:+,.0f} MiB", more_mib <= RSS_MORE_MIB),
        Verdict(
            "queries end at SIGTERM", f"< {QUERIES_STOP_S:g} s", f"{stop['queries_s']:.2f} s", stop["queries_s"] < QUERIES_STOP_S
        ),
        Verdict(
            "the worker ends at SIGTERM", f"with 0, < {STOP_S:g} s", f"with {stop['code']}, {stop['s']:.2f} s",
            stop["code"] == 0 and stop["s"] < STOP_S,
        ),
        Verdict("the books", "balance; totals are what was sent", _books(figures), not figures["wrong"] and figures["audit_code"] == 0),
    ]  # fmt: skip


def _alive(figures: Mapping[str, Any]) -> str:
    return f"pid {figures['pid']}" if figures["alive"] else "it ended"


def _books(figures: Mapping[str, Any]) -> str:
    if figures["wrong"]:
        return f"{len(figures['wrong'])} totals differ"
    return "right" if figures["audit_code"] == 0 else f"the audit ends with {figures['audit_code']}"


def _within(found_ms: float | None, limit_ms: float) -> bool:
    return found_ms is not None and found_ms < limit_ms


def in_ms(value: float | None) -> str:
    """A time for people."""
    if value is None:
        return "none"
    return "never" if math.isinf(value) else f"{value:,.0f} ms"
