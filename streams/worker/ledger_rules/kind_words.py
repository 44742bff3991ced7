"""Names a kind of job in a sentence."""

from __future__ import annotations

from streams.engine.alerts.formatting import one_line
from streams.engine.ledger_rules.job_kinds import JobKind


def jobs_of(kind: JobKind) -> str:
    """Return words for its jobs."""
    if kind.by == "name":
        return f"jobs named {one_line(kind.name)}"
    if kind.by == "team" and not kind.name:
        return "jobs without a team"
    return f"jobs of {kind.by} {one_line(kind.name)}"
