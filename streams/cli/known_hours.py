"""Says which time a store has costs of, where an answer is empty: the span asked for may lie beside it."""

from __future__ import annotations

from streams.cli.reading import Reader
from streams.costs.sql import extent_sql


def known_hours(store: Reader, *, of_nodes: bool = False) -> str:
    """From which day to which the store has hours of jobs, or of nodes."""
    (known,) = store.records(extent_sql(of_nodes=of_nodes))
    if not known["hours"]:
        return "the store has no hours"
    return f"the store has hours from {known['first']} to {known['last']}"
