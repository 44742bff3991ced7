"""Tracks what changed in a shard since its last snapshot.

Plain memory; it does not write the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class OwedHour(NamedTuple):
    """An hour that samples made due, to be written with the next accrual of the job."""

    job_id: str
    attempt: int
    hour: int


@dataclass(slots=True)
class Changes:
    """What the next snapshot increment must include."""

    jobs: set[str] = field(default_factory=set)
    sampled: set[str] = field(default_factory=set)  # only samples arrived that change no cost
    owed: set[OwedHour] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    gone: dict[str, int] = field(default_factory=dict)
    prices: bool = True
    size_bytes: int = 0  # approximate size of the last snapshot's changes

    def clear(self, size_bytes: int = 0) -> None:
        """Forget the changes: a snapshot includes them now."""
        self.size_bytes = size_bytes
        self.jobs.clear()
        self.sampled.clear()
        self.owed.clear()
        self.nodes.clear()
        self.gone.clear()
        self.prices = False
