"""Which slots a message shape speaks of: a group of the coverage, looked up once per shape.

Must not outlive its names: numbers of groups hold for one epoch of them.
"""

from __future__ import annotations

import numpy as np

from streams.engine.coverage.names import HolderNames
from streams.engine.coverage.shapes import Shapes
from streams.engine.kernels.arrays import I32

_UNKNOWN = -1


class ShapeGroups:
    """Groups by the index of a shape."""

    def __init__(self, names: HolderNames) -> None:
        self._names = names
        self._valid = (-1, -1)
        self._group = np.zeros(0, np.int32)

    def of(self, shapes: Shapes, index: I32) -> I32:
        """[n] the group of each shape; 0, which has no slot, for idle GPUs.  New ones are learnt."""
        valid = (shapes.generation, self._names.epoch)
        if valid != self._valid:
            self._valid, self._group = valid, np.zeros(0, np.int32)
        if len(self._group) < len(shapes):
            larger = np.full(max(len(shapes), 2 * len(self._group)), _UNKNOWN, np.int32)
            larger[: len(self._group)] = self._group
            self._group = larger
        unknown = np.unique(index[self._group[index] == _UNKNOWN]).tolist()
        self._group[unknown] = self._names.groups(shapes[number][1:5] for number in unknown)
        found: I32 = self._group[index]
        return found
