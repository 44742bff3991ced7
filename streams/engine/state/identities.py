"""A set of event identities of one job or node, in 16 bytes each.

A few are kept in a set, the others packed in one sorted string; none is ever forgotten here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

ID_BYTES: Final = 16
_LOOSE: Final = 64


class Identities:
    """A set of ids that also knows which were added since the last `drain_new`."""

    __slots__ = ("_fresh", "_loose", "_packed")

    def __init__(self, packed: bytes = b"") -> None:
        """`packed`: concatenated ids of 16 bytes, in any order."""
        self._loose: set[bytes] = set()
        self._packed = b""
        self._fresh = bytearray()  # there may be thousands between two snapshots
        if packed:
            self._packed = b"".join(sorted(set(_split(packed))))

    def __len__(self) -> int:
        return len(self._loose) + len(self._packed) // ID_BYTES

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._loose or (bool(self._packed) and self._is_packed(identity))

    def _is_packed(self, identity: bytes) -> bool:
        packed, low, high = self._packed, 0, len(self._packed) // ID_BYTES
        while low < high:
            middle = (low + high) // 2
            found = packed[middle * ID_BYTES : (middle + 1) * ID_BYTES]
            if found == identity:
                return True
            if found < identity:
                low = middle + 1
            else:
                high = middle
        return False

    def add(self, identity: bytes) -> None:
        """Add an id that is not in the set."""
        self._loose.add(identity)
        self._fresh += identity
        if len(self._loose) > _LOOSE + len(self._packed) // (8 * ID_BYTES):
            self._packed = b"".join(sorted([*self._loose, *_split(self._packed)]))
            self._loose = set()

    def add_all(self, packed: bytes) -> None:
        """Add concatenated ids; they do not count as new."""
        for identity in _split(packed):
            if identity not in self:
                self.add(identity)
        self._fresh.clear()

    def dump(self) -> bytes:
        """All ids, concatenated and sorted."""
        if not self._loose:
            return self._packed
        if len(self._loose) == 1 and not self._packed:  # as of most nodes
            return next(iter(self._loose))
        return b"".join(sorted([*self._loose, *_split(self._packed)]))

    @property
    def has_fresh(self) -> bool:
        """Whether any id was added since the last `drain_new`."""
        return bool(self._fresh)

    def drain_new(self) -> bytes:
        """The ids added since the last call."""
        if not self._fresh:
            return b""
        fresh, self._fresh = bytes(self._fresh), bytearray()
        return fresh


def _split(packed: bytes) -> Iterator[bytes]:
    return (packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES))
