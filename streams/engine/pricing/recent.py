"""What was computed last and others will ask for again, within a limit of size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key; the oldest are dropped while all together weigh more than `weight_max`."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._lock = threading.Lock()
        self._values: dict[K, tuple[V, int]] = {}

    def get(self, key: K, make: Callable[[], V], weigh: Callable[[V], int]) -> V:
        """Return the value of a key, made if it is not there."""
        found = self._values.get(key)
        if found is not None:
            return found[0]
        value = make()
        with self._lock:  # shards are restored in threads of their own
            if key not in self._values:
                self._values[key] = value, weigh(value)
                self._weight += self._values[key][1]
            while self._weight > self._weight_max and len(self._values) > 1:
                self._weight -= self._values.pop(next(iter(self._values)))[1]
        return value
