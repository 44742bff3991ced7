"""Names a kind of job in a sentence."""

from __future__ import annotations

from streams.engine.alerts.formatting import short
from streams.engine.ledger_rules.job_kinds import JobKind


def jobs_of(kind: JobKind, at_most: int) -> str:
    """Return words for its jobs."""
    if kind.by == "name":
        return f"jobs named {short(kind.name, at_most)}"
    if kind.by == "team" and not kind.name:
        return "jobs without a team"
    return f"jobs of {kind.by} {short(kind.name, at_most)}"
