"""The books of a shard: every record that came in is accounted for exactly once.

Counts only; the equation is `records_in = applied + duplicate + too_late + dead_lettered`.
"""

from __future__ import annotations

import msgspec


class Books(msgspec.Struct):
    """Counts since the shard's first record; `trimmed` records had been folded before and are not counted in."""

    records_in: int = 0
    applied: int = 0
    duplicate: int = 0
    too_late: int = 0
    dead_lettered: int = 0
    trimmed: int = 0
    late_gpu_samples: int = 0
    capped_costs: int = 0

    @property
    def balanced(self) -> bool:
        """Whether each record that came in has become exactly one thing."""
        return self.records_in == self.applied + self.duplicate + self.too_late + self.dead_lettered

    def plus(self, other: Books) -> Books:
        """Both together (of two shards)."""
        return Books(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))
