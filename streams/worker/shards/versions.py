"""Versions of stored rows: (group incarnation, Kafka generation, counter) packed so that a later owner wins.

The order follows from the group's generations and from what is stored. Within one generation the time, which
is handed in, separates processes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_COUNTER_BITS: Final = 32
_GENERATION_BITS: Final = 20
_INCARNATION_BITS: Final = 12
# An owner that restarts within one generation (static membership) begins a new block, so that a late insert of its
# former process cannot have the same version.
LIFE_BITS: Final = 16
# A process that stored nothing leaves no trace of its block, so each block begins at the seconds that have passed, with
# room for 16 versions a second still in flight. The seconds wrap around every four years.
_SECONDS_BITS: Final = 27
_PER_SECOND_BITS: Final = 4


class Version(NamedTuple):
    """The parts of a version; tuples have the same order as the integers."""

    incarnation: int
    generation: int
    counter: int

    def pack(self) -> int:
        """The integer that is stored.

        Raises:
            ValueError: A part does not fit into its bits.
        """
        if (
            self.incarnation >> _INCARNATION_BITS
            or self.generation >> _GENERATION_BITS
            or self.counter >> _COUNTER_BITS
        ):
            raise ValueError(f"{self} does not fit into 64 bits")
        upper = (self.incarnation << _GENERATION_BITS) | self.generation
        return (upper << _COUNTER_BITS) | self.counter

    @classmethod
    def unpack(cls, packed: int) -> Version:
        """The parts of a stored integer."""
        upper = packed >> _COUNTER_BITS
        return cls(
            upper >> _GENERATION_BITS,
            upper & ((1 << _GENERATION_BITS) - 1),
            packed & ((1 << _COUNTER_BITS) - 1),
        )


class LaterGenerationError(Exception):
    """The store holds rows of a later generation than ours: the group was recreated, or we left it."""

    def __init__(self, number: int, newest: int, generation: int) -> None:
        stored = Version.unpack(newest).generation
        super().__init__(f"shard {number} has rows of generation {stored} of the group, ours is {generation}")
        self.newest = newest


def refuse_if_later(number: int, newest: int, generation: int, proven: int) -> None:
    """Check the newest stored version against this worker's generation.

    Raises:
        LaterGenerationError: It is of a later generation, and newer than `proven`.
    """
    if Version.unpack(newest).generation > generation & ((1 << _GENERATION_BITS) - 1) and newest > proven:
        raise LaterGenerationError(number, newest, generation)


class VersionClock:
    """Issues versions of a shard that are higher than all it has ever stored."""

    def __init__(self, newest_stored: int, generation: int, now_ms: int = 0) -> None:
        self._last = Version.unpack(newest_stored)
        self.enter(generation, now_ms)

    def enter(self, generation: int, now_ms: int = 0) -> None:
        """Continue in another generation of the group.

        A smaller generation means that the group was recreated (or is on another cluster): the incarnation counts
        these.
        """
        generation &= (1 << _GENERATION_BITS) - 1
        incarnation, newest_generation, counter = self._last
        begin = (now_ms // 1000 & ((1 << _SECONDS_BITS) - 1)) << _PER_SECOND_BITS
        if generation > newest_generation:
            self._last = Version(incarnation, generation, begin)
        elif generation == newest_generation:
            block = ((counter >> LIFE_BITS) + 1) << LIFE_BITS
            self._last = Version(incarnation, generation, max(block, begin))
        else:
            self._last = Version(incarnation + 1, generation, begin)

    def is_above(self, stored: int) -> bool:
        """Whether every version from now on is above this one."""
        return self._last.pack() >= stored

    def next(self) -> int:
        """A version that was never issued before."""
        self._last = self._last._replace(counter=self._last.counter + 1)
        return self._last.pack()
