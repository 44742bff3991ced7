"""Logs that are the same in every run, in parts of ten, with what the oracle says of them.

Must be asked while no rule is broken: what is right is worked out with the part, which is then kept.
"""

from __future__ import annotations

from functools import cache

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.oracle.compute import compute
from tests.oracle.model import Tables
from tests.strategies.logs import Log, fleets, logs, scrambled, with_stragglers

timely = logs()
untimely = fleets(long_samples=True, most_samples=10).flatmap(with_stragglers).flatmap(scrambled).map(Log)
_PART = 10


@cache
def some(strategy: st.SearchStrategy[Log], part: int) -> list[tuple[Log, Tables]]:
    """One part."""
    found: list[tuple[Log, Tables]] = []

    @seed(part)
    @settings(
        max_examples=_PART, phases=[Phase.generate], deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(log: Log) -> None:
        found.append((log, compute(log.lines, as_of_ms=log.as_of_ms)))

    collect()
    return found
