"""Versions of stored rows: (group incarnation, Kafka generation, counter) in one integer, so that a later owner wins.

Order comes from the group's generations and from what is stored; within one generation the time helps, which is
handed in: it must not read a clock.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_COUNTER_BITS: Final = 32
_GENERATION_BITS: Final = 20
_INCARNATION_BITS: Final = 12
# An owner that comes back within one generation (static membership) begins a new block, so that even an insert of
# its earlier life that is still on the way cannot bear the same version.
_LIFE_BITS: Final = 16
# A life that stored nothing has left no trace of its block: so each begins where the seconds that have passed say,
# with room for 16 versions a second that are still on their way.  The seconds come around every four years.
_SECONDS_BITS: Final = 27
_PER_SECOND_BITS: Final = 4


class Version(NamedTuple):
    """The parts of a version; tuples order as the integers do."""

    incarnation: int
    generation: int
    counter: int

    def pack(self) -> int:
        """Return the integer that is stored."""
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
        """Return the parts of a stored integer."""
        upper = packed >> _COUNTER_BITS
        return cls(
            upper >> _GENERATION_BITS,
            upper & ((1 << _GENERATION_BITS) - 1),
            packed & ((1 << _COUNTER_BITS) - 1),
        )


class LaterGenerationError(Exception):
    """The store holds rows of a later generation than ours: the group was made anew, or we are out of it."""

    def __init__(self, number: int, newest: int, generation: int) -> None:
        stored = Version.unpack(newest).generation
        super().__init__(f"shard {number} has rows of generation {stored} of the group, ours is {generation}")
        self.newest = newest


def refuse_if_later(number: int, newest: int, generation: int, proven: int) -> None:
    """Raise LaterGenerationError if the newest stored version is of a later generation, and above `proven`."""
    if Version.unpack(newest).generation > generation & ((1 << _GENERATION_BITS) - 1) and newest > proven:
        raise LaterGenerationError(number, newest, generation)


class VersionClock:
    """Gives a shard versions above everything it has ever stored."""

    def __init__(self, newest_stored: int, generation: int, now_ms: int = 0) -> None:
        self._last = Version.unpack(newest_stored)
        self.enter(generation, now_ms)

    def enter(self, generation: int, now_ms: int = 0) -> None:
        """Go on in another generation of the group.

        A smaller one means that the group was made anew (or another cluster): the incarnation counts these.
        """
        generation &= (1 << _GENERATION_BITS) - 1
        incarnation, newest_generation, counter = self._last
        begin = (now_ms // 1000 & ((1 << _SECONDS_BITS) - 1)) << _PER_SECOND_BITS
        if generation > newest_generation:
            self._last = Version(incarnation, generation, begin)
        elif generation == newest_generation:
            block = ((counter >> _LIFE_BITS) + 1) << _LIFE_BITS
            self._last = Version(incarnation, generation, max(block, begin))
        else:
            self._last = Version(incarnation + 1, generation, begin)

    def next(self) -> int:
        """Return a version that was never given before."""
        self._last = self._last._replace(counter=self._last.counter + 1)
        return self._last.pack()
