"""Which connections the broker keeps: a place for whoever shows a password, and few for those that have not.

The worker's own connections are not counted, and so nobody takes their places.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Protocol

#: Without a password yet: the oldest makes room, so that silence keeps nobody out.
STRANGERS_MAX: Final = 64
#: With the password of `client.env`.
CLIENTS_MAX: Final = 64


class Role(Enum):
    """Who a connection is, by its password."""

    STRANGER = auto()
    CLIENT = auto()
    WORKER = auto()  # of this process


class Occupant(Protocol):
    """A connection that has a place."""

    def waits_for_us(self) -> bool:
        """Whether a request of it is being answered."""
        ...

    def cut(self) -> None:
        """Close immediately."""
        ...


class Slots:
    """The places of one broker."""

    def __init__(self, strangers_max: int = STRANGERS_MAX, clients_max: int = CLIENTS_MAX) -> None:
        self._strangers_max = strangers_max
        self._clients_max = clients_max
        # Ordered sets: of strangers by arrival, of clients by their last request.
        self._strangers: dict[Occupant, None] = {}
        self._clients: dict[Occupant, None] = {}
        self.evicted = 0

    def arrive(self, new: Occupant) -> None:
        """Give a place to a connection that has shown nothing; the oldest such one makes room."""
        if len(self._strangers) >= self._strangers_max:
            self._evict(next(iter(self._strangers)))
        self._strangers[new] = None

    def introduce(self, known: Occupant, role: Role) -> bool:
        """Give a connection that has shown a password its own place; False: all clients are being answered."""
        if known not in self._strangers:
            return False  # it was evicted meanwhile
        if role is Role.CLIENT:
            if len(self._clients) >= self._clients_max:
                idle = next((each for each in self._clients if not each.waits_for_us()), None)
                if idle is None:
                    return False
                self._evict(idle)
            self._clients[known] = None
        del self._strangers[known]
        return True

    def used(self, known: Occupant) -> None:
        """Record that a connection has asked something: it is the last of its kind to make room."""
        if known in self._clients:
            del self._clients[known]
            self._clients[known] = None

    def leave(self, gone: Occupant) -> None:
        """Take back the place of a connection, which may have none."""
        self._strangers.pop(gone, None)
        self._clients.pop(gone, None)

    def _evict(self, each: Occupant) -> None:
        self.evicted += 1
        self.leave(each)
        each.cut()
