"""Figures of an attack in which every limit holds, for tests that break one at a time."""

from __future__ import annotations

from typing import Any

from loadtest.abuse_judge import Spread

FAST = Spread(10, 10, 5.0, 9.0, 9.0)


def phase(**changed: Any) -> dict[str, Any]:
    """A quiet time, or an attack that nobody noticed."""
    spreads = dict.fromkeys(("live", "healthz", "jobs", "sql", "stream"), FAST)
    held = {
        "rss_mib": 600.0, "worker_cpu_percent": 40.0, "files": 200, "queries": 2, "queries_mib": 150.0,
        "queries_cpu_percent": 90.0, "shared_mib": 10.0, "load_per_s": 10_000.0, "late_slices": 0,
    }  # fmt: skip
    return {**spreads, **held, **changed}


def figures(attack: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """What a run returns; `attack` and the names are what differs."""
    return {
        "machine": {"cores": 2}, "load_average": [0.1, 0.2], "seconds": 120.0, "addresses": 16, "pid": 7, "alive": True,
        "attackers": {"idle": 2_000, "slow": 200, "deaf": 64, "bombers": 8, "guessers": 1},
        "baseline": phase(), "attack": phase(**(attack or {})),
        "stop": {"s": 1.5, "code": 0, "queries": 2, "queries_s": 0.2},
        "honest": {"healthz": {"200": 10}}, "edge": {"connections": 512.0},
        "attackers_met": {"idle": {"closed": 3}, "bomb hashes": {"400": 2}}, "longest_s": {"hashes": 30.1},
        "clients_cpu_percent": {"idle": 5.0}, "wrong": [], "audit_code": 0, "usd": "1",
        **changed,
    }  # fmt: skip
