"""What was computed last and others will ask for again, within a limit of size."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key; the oldest are dropped while all together weigh more than `weight_max`.

    Threads may ask at once: the dictionary is replaced, never changed, and of two that add to it one may be lost.
    """

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._values: dict[K, tuple[V, int]] = {}

    def get(self, key: K, make: Callable[[], V], weigh: Callable[[V], int]) -> V:
        """Return the value of a key, made if it is not there."""
        found = self._values.get(key)
        if found is not None:
            return found[0]
        value = make()
        values = {**self._values, key: (value, weigh(value))}
        weight = sum(each for _, each in values.values())
        for oldest in list(values)[:-1]:
            if weight <= self._weight_max:
                break
            weight -= values.pop(oldest)[1]
        self._values = values
        return value
