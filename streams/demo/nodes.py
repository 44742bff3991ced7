"""Allocates the GPUs of a pool: which are free, and which nodes a job gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streams.demo.catalog import GPUS_PER_NODE, Pool

#: Node -> the numbers of the GPUs held there.
Held = dict[str, list[int]]


class PoolNodes:
    """The nodes of one pool; large jobs get whole nodes, small ones fill partly used nodes."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._made = 0
        self._free: dict[str, list[int]] = {}

    def add(self) -> str:
        """Add a free node, and return its name."""
        self._made += 1
        name = f"{self.pool.name}-{self._made:02d}"
        self._free[name] = list(range(GPUS_PER_NODE))
        return name

    def remove(self, node: str) -> None:
        """Remove a node."""
        del self._free[node]

    def place(self, gpus: int) -> Held | None:
        """Allocate GPUs, or return None if there is no room."""
        if gpus < GPUS_PER_NODE:
            fitting = [node for node, free in self._free.items() if len(free) >= gpus]
            nodes = [min(fitting, key=lambda node: (len(self._free[node]), node))] if fitting else []
            share = gpus
        else:
            share = GPUS_PER_NODE
            nodes = [node for node, free in self._free.items() if len(free) == share][: -(-gpus // share)]
        if len(nodes) * share < gpus:
            return None
        return {node: self._reserve(node, share) for node in nodes}

    def release(self, held: Mapping[str, list[int]]) -> None:
        """Release GPUs; those of a removed node are ignored."""
        for node, gpus in held.items():
            if node in self._free:
                self._free[node] = sorted([*self._free[node], *gpus])

    def idle(self) -> Iterator[tuple[str, list[int]]]:
        """Yield nodes with free GPUs, and which."""
        return ((node, free) for node, free in self._free.items() if free)

    def reserve(self, node: str) -> list[int]:
        """Allocate the free GPUs of a node."""
        return self._reserve(node, GPUS_PER_NODE)

    def _reserve(self, node: str, count: int) -> list[int]:
        free = self._free[node]
        self._free[node] = free[count:]
        return free[:count]
