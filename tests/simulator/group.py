"""The broker's side of the consumer group: members, generations, who owns what, what was committed.

Members learn of a rebalance by asking, and join by calling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from streams.transport.faust_types import TP
from tests.simulator.world import World

_REBALANCE_MS = 15_000  # a member that does not join again by then is out


class Joined(NamedTuple):
    """What a member is told at the end of a rebalance."""

    generation: int
    numbers: frozenset[int]


Answer = Callable[[Joined | None], None]


@dataclass
class Member:
    """One member; `beat_us` is when the broker last heard of it."""

    name: str
    beat_us: int
    joining: Answer | None = None
    static: bool = False


@dataclass
class Group:
    """Its state changes by calls of members and by deadlines only."""

    world: World
    numbers: int  # shards
    session_ms: int
    generation: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    assigned: dict[str, frozenset[int]] = field(default_factory=dict)
    preparing: bool = False
    committed: dict[TP, int] = field(default_factory=dict)
    _deadline: int = 0

    # -- what members do -----------------------------------------------------------------------------------

    def join(self, name: str, answer: Answer, *, static: bool) -> None:
        """Join, or join again; answered when the rebalance ends."""
        known = self.members.get(name)
        if known is None:
            known = self.members[name] = Member(name, self.world.now_us, static=static)
        elif static and not self.preparing and known.joining is None and name in self.assigned:
            # A static member that comes back within its session: nothing changes for anybody.
            known.beat_us = self.world.now_us
            self._watch(known)
            self.world.after(5, answer, Joined(self.generation, self.assigned[name]))
            return
        known.beat_us = self.world.now_us
        known.joining = answer
        self._watch(known)
        if not self.preparing:
            self._prepare()
        self._complete_if_all()

    def leave(self, name: str) -> None:
        """A member says that it goes."""
        if self.members.pop(name, None) is not None:
            self._prepare()
            self._complete_if_all()

    def beat(self, name: str, generation: int) -> str:
        """A heartbeat: `ok`, `rebalance`, or `unknown` to whoever is out."""
        member = self.members.get(name)
        if member is None or generation != self.generation:
            return "unknown"
        member.beat_us = self.world.now_us
        return "rebalance" if self.preparing else "ok"

    def commit(self, name: str, generation: int, offsets: dict[TP, int]) -> bool:
        """Refused to whoever is not of this generation."""
        if name not in self.members or generation != self.generation or self.preparing:
            return False
        self.committed.update(offsets)
        return True

    # -- what time does ------------------------------------------------------------------------------------

    def _watch(self, member: Member) -> None:
        self.world.at(member.beat_us + self.session_ms * 1000, self._expire, member)

    def _expire(self, member: Member) -> None:
        if self.members.get(member.name) is not member:
            return
        if self.world.now_us < member.beat_us + self.session_ms * 1000 or member.joining is not None:
            self.world.at(
                max(member.beat_us, self.world.now_us - 1) + self.session_ms * 1000, self._expire, member
            )
            return
        self.world.note("group", "expels", member.name)
        del self.members[member.name]
        self._prepare()
        self._complete_if_all()

    def _prepare(self) -> None:
        self.preparing = True
        self._deadline += 1
        self.world.after(_REBALANCE_MS, self._complete, self._deadline)

    def _complete_if_all(self) -> None:
        if self.preparing and all(member.joining is not None for member in self.members.values()):
            # A group's first rebalance waits for more to come; any other takes an exchange or two.
            self.world.after(self.world.pause(5, 500), self._complete, self._deadline)

    def _complete(self, deadline: int) -> None:
        if deadline != self._deadline or not self.preparing:
            return
        self._deadline += 1
        self.preparing = False
        self.generation += 1
        for name in [name for name, member in self.members.items() if member.joining is None]:
            del self.members[name]
        names = sorted(self.members)
        shares: dict[str, set[int]] = {name: set() for name in names}
        if names:
            first = self.world.rng.randrange(len(names))
            for number in range(self.numbers):
                owner = next((n for n in names if number in self.assigned.get(n, ())), None)
                if owner is None or self.world.chance(0.4) or len(shares[owner]) > self.numbers // len(names):
                    owner = names[(first + number) % len(names)]
                shares[owner].add(number)
        self.assigned = {name: frozenset(numbers) for name, numbers in shares.items()}
        self.world.note(
            "group", "generation", self.generation, {n: sorted(s) for n, s in self.assigned.items()}
        )
        for name in names:
            member = self.members[name]
            answer, member.joining = member.joining, None
            member.beat_us = self.world.now_us
            self._watch(member)
            if answer is not None:
                self.world.after(
                    self.world.pause(1, 400), answer, Joined(self.generation, self.assigned[name])
                )
