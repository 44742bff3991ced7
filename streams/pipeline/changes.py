"""What of a shard changed since its last snapshot.

Plain memory; it does not write the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Changes:
    """What the next snapshot increment must carry."""

    jobs: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    gone: dict[str, int] = field(default_factory=dict)
    prices: bool = True

    def clear(self) -> None:
        """A snapshot carries them now."""
        self.jobs.clear()
        self.nodes.clear()
        self.gone.clear()
        self.prices = False
