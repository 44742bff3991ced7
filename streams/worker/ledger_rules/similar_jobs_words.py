"""Names similar jobs in a sentence."""

from __future__ import annotations

from streams.engine.alerts.formatting import short
from streams.engine.ledger_rules.similar_jobs import Similarity


def jobs_of(similarity: Similarity, at_most: int) -> str:
    """Return words for its jobs."""
    if similarity.by == "name":
        return f"jobs named {short(similarity.name, at_most)}"
    if similarity.by == "team" and not similarity.name:
        return "jobs without a team"
    return f"jobs of {similarity.by} {short(similarity.name, at_most)}"
