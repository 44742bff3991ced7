"""Tracks what of a shard changed since its last snapshot.

Plain memory; it does not write the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Changes:
    """What the next snapshot increment must carry."""

    jobs: set[str] = field(default_factory=set)
    sampled: set[str] = field(default_factory=set)  # of which samples alone were seen, that cost nothing
    nodes: set[str] = field(default_factory=set)
    gone: dict[str, int] = field(default_factory=dict)
    prices: bool = True
    size_bytes: int = 0  # about what the last snapshot's changes weighed

    def clear(self, size_bytes: int = 0) -> None:
        """A snapshot carries them now."""
        self.size_bytes = size_bytes
        self.jobs.clear()
        self.sampled.clear()
        self.nodes.clear()
        self.gone.clear()
        self.prices = False
