"""Converts the last audit and canary results to values for the metrics."""

from __future__ import annotations

from streams.worker.health.worker_status import CanaryStatus, SeenCanary, SeenVerdict


def balanced(verdict: SeenVerdict) -> dict[str, bool]:
    """Return, for each check, whether all its findings are ok."""
    found: dict[str, bool] = {}
    for finding in verdict.findings:
        found[finding.check] = found.get(finding.check, True) and finding.ok
    return found


def canary_of(canary: SeenCanary | None, now_ms: int) -> CanaryStatus | None:
    """The canary's present status; None without a canary."""
    if canary is None:
        return None
    right_ms = canary.right_at_ms
    return CanaryStatus(
        runs=canary.runs,
        wrong=canary.wrong,
        late=canary.late,
        right_age_ms=None if right_ms is None else max(now_ms - right_ms, 0),
        latency_ms=canary.latency_ms,
        error_ratio=canary.error_ratio,
    )
