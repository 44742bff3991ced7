"""What was computed last and others will ask for again, within a limit of size."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key; the oldest are dropped before all together weigh more than `weight_max`.

    They are in two halves, the older of which is dropped when the newer is full, so that adding one costs the same however
    many there are. Threads may ask at once: each step is one operation on a dictionary, and of a value that two add at once
    the weight may count once.
    """

    def __init__(self, weight_max: int) -> None:
        self._half_max = weight_max // 2
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}
        self._newer_weight = 0

    def get(self, key: K, make: Callable[[], V], weigh: Callable[[V], int]) -> V:
        """The value of a key, made if it is not there."""
        for values in (self._newer, self._older):
            found = values.get(key)
            if found is not None:
                return found
        value = make()
        weight = weigh(value)
        if self._newer_weight + weight > self._half_max:
            self._older, self._newer, self._newer_weight = self._newer, {}, 0
        self._newer[key] = value
        self._newer_weight += weight
        return value
