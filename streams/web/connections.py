"""Limits the server's connections: how many there may be, how long each may be slow, and which one is closed first.

It must not read a clock, nor touch a socket: times are handed in, and a connection is cut by whoever made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from operator import itemgetter
from typing import Final, Protocol

from streams.web.connection_rate import ArrivalRate


class ConnectionPhase(Enum):
    """What a connection waits for."""

    NEW = auto()  # its first byte
    HEADER = auto()  # the rest of a request's header
    BODY = auto()  # the rest of its body
    ANSWER = auto()  # us
    IDLE = auto()  # the next request


class RefusalReason(StrEnum):
    """Why a connection was not taken."""

    ALL = "all"  # web.max_connections, and none of them waits for its client
    ADDRESS = "address"  # web.max_connections_per_address, likewise
    RATE = "rate"  # too many of one address in a short time, while over half of all connections are taken


class DropReason(StrEnum):
    """Why a connection was cut."""

    HEADER = "header"
    BODY = "body"
    IDLE = "idle"
    NOT_READING = "not_reading"
    EVICTED = "evicted"  # it waited longest for its client when another one came


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client may take."""

    header_ms: int = 5_000  # from the connection to its first byte, and from there to the end of the header
    body_ms: int = 10_000
    idle_ms: int = 30_000
    crowded_idle_ms: int = 15_000  # while over half of all connections are taken
    write_ms: int = 10_000  # in which an answer must be read whole, or `write_min_bytes` of it
    write_min_bytes: int = 32 * 1024


PATIENCE: Final = Timeouts()


class SocketControl(Protocol):
    """The socket behind a connection."""

    def unsent_bytes(self) -> int:
        """What was written and not taken yet."""
        ...

    def has_unread(self) -> bool:
        """Whether something came that was not looked at yet."""
        ...

    def cut(self) -> None:
        """Close at once, and free what was not taken."""
        ...


_WAITING: Final = frozenset(
    {ConnectionPhase.NEW, ConnectionPhase.HEADER, ConnectionPhase.BODY, ConnectionPhase.IDLE}
)


class HttpConnection:
    """One client: what it does, and since when."""

    __slots__ = (
        "_open",
        "_taken_bytes",
        "_unsent_bytes",
        "address",
        "line",
        "owes_ms",
        "phase",
        "since_ms",
        "stalled_ms",
    )

    def __init__(self, address: str, line: SocketControl, now_ms: int) -> None:
        self.address = address
        self.line = line
        self.phase = ConnectionPhase.NEW
        self.since_ms = now_ms  # when the phase began
        self.owes_ms = now_ms  # since when the client owes us something
        self.stalled_ms: int | None = None  # since when it has not taken enough of an answer
        self._open = 0  # requests that are not answered yet
        self._unsent_bytes = 0
        self._taken_bytes = 0

    def on_received(self, requests: int, *, body_is_due: bool, now_ms: int) -> None:
        """Bytes came; with them so many headers became complete."""
        self._open += requests
        if requests or self.phase is ConnectionPhase.BODY:
            self._enter(ConnectionPhase.BODY if body_is_due else ConnectionPhase.ANSWER, now_ms)
        elif self.phase in (ConnectionPhase.NEW, ConnectionPhase.IDLE):
            # What the client owes it has owed since before: a slow header must not look younger than a silent client.
            self.phase, self.since_ms = ConnectionPhase.HEADER, now_ms

    def answered(self, now_ms: int) -> None:
        """A request was answered; the answer may still have to be taken."""
        self._open = max(self._open - 1, 0)
        if not self._open:
            self._enter(ConnectionPhase.IDLE, now_ms)

    def _enter(self, phase: ConnectionPhase, now_ms: int) -> None:
        if phase is not self.phase:
            self.phase, self.since_ms, self.owes_ms = phase, now_ms, now_ms

    def drained(self) -> None:
        """The client has taken nearly all that was written."""
        self.stalled_ms = None

    def check_writes(self, now_ms: int, patience: Timeouts) -> None:
        """Compare what is not taken yet with the last look."""
        unsent_bytes = self.line.unsent_bytes()
        if not unsent_bytes:
            self.stalled_ms = None
        elif self.stalled_ms is None:
            self.stalled_ms, self._taken_bytes = now_ms, 0
        else:
            self._taken_bytes += max(self._unsent_bytes - unsent_bytes, 0)
            if self._taken_bytes >= patience.write_min_bytes:
                self.stalled_ms, self._taken_bytes = now_ms, 0
        self._unsent_bytes = unsent_bytes

    def waits_since_ms(self) -> int | None:
        """Since when the server waits for this client; None while the client waits for the server."""
        if self.phase in _WAITING:
            return self.owes_ms if self.stalled_ms is None else min(self.owes_ms, self.stalled_ms)
        return self.stalled_ms

    def overdue(self, now_ms: int, patience: Timeouts, *, crowded: bool) -> DropReason | None:
        """Why it must go; None while it may stay."""
        if self.stalled_ms is not None and now_ms - self.stalled_ms >= patience.write_ms:
            return DropReason.NOT_READING
        waited_ms = now_ms - self.since_ms
        if self.phase in (ConnectionPhase.NEW, ConnectionPhase.HEADER):
            return DropReason.HEADER if waited_ms >= patience.header_ms else None
        if self.phase is ConnectionPhase.BODY:
            return DropReason.BODY if waited_ms >= patience.body_ms else None
        if self.phase is ConnectionPhase.IDLE:
            limit_ms = patience.crowded_idle_ms if crowded else patience.idle_ms
            return DropReason.IDLE if waited_ms >= limit_ms else None
        return None


class ConnectionTable:
    """All connections of a server."""

    def __init__(self, most: int, most_per_address: int, patience: Timeouts) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._patience = patience
        self._by_address: dict[str, dict[HttpConnection, None]] = {}  # sets that keep their order
        self._arrivals = ArrivalRate()
        self.connections = 0
        self.refused: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def admit(self, address: str, line: SocketControl, now_ms: int) -> HttpConnection | RefusalReason:
        """Take a connection, or say why not.

        Where there is no room, the one that has kept the server waiting longest makes it: of the same address where
        that has too many, else of the address that has most, so that a flood evicts itself and nobody else.  To evict
        costs the meter more than to refuse, so the rate at which one address may come is bounded in a crowd.
        """
        if self.is_crowded and not self._arrivals.allow(address, now_ms):
            return self._refuse(RefusalReason.RATE)
        of_address = self._by_address.get(address, {})
        if len(of_address) >= self._most_per_address:
            if not self._evict(of_address):
                return self._refuse(RefusalReason.ADDRESS)
        elif self.connections >= self._most:
            by_size = sorted(self._by_address.values(), key=len, reverse=True)
            if not any(self._evict(each) for each in by_size):
                return self._refuse(RefusalReason.ALL)
        connection = HttpConnection(address, line, now_ms)
        self._by_address.setdefault(address, {})[connection] = None
        self.connections += 1
        return connection

    @property
    def is_crowded(self) -> bool:
        """Whether over half of all connections are taken."""
        return self.connections * 2 > self._most

    def _refuse(self, why: RefusalReason) -> RefusalReason:
        self.refused[why] += 1
        return why

    def leave(self, connection: HttpConnection) -> None:
        """Forget a connection; it may have been forgotten before."""
        of_address = self._by_address.get(connection.address)
        if of_address is None or connection not in of_address:
            return
        del of_address[connection]
        self.connections -= 1
        if not of_address:
            del self._by_address[connection.address]

    def close_stalled(self, now_ms: int) -> None:
        """Cut whoever has kept the server waiting too long."""
        crowded = self.is_crowded
        self._arrivals.forget(now_ms)
        for connection in list(self):
            connection.check_writes(now_ms, self._patience)
            why = connection.overdue(now_ms, self._patience, crowded=crowded)
            if why is not None:
                self._drop(connection, why)

    def cut_all(self) -> None:
        """Cut every connection: the server stops."""
        for connection in list(self):
            self.leave(connection)
            connection.line.cut()

    def __iter__(self) -> Iterator[HttpConnection]:
        for of_address in self._by_address.values():
            yield from of_address

    def _evict(self, among: Iterable[HttpConnection]) -> bool:
        waiting = [(since_ms, each) for each in among if (since_ms := each.waits_since_ms()) is not None]
        # Stable: of those that came at once the first is the first to go.
        for _, each in sorted(waiting, key=itemgetter(0)):
            # In a flood one that has asked already would go before the loop has come to its request.
            if each.phase is not ConnectionPhase.NEW or not each.line.has_unread():
                self._drop(each, DropReason.EVICTED)
                return True
        return False

    def _drop(self, connection: HttpConnection, why: DropReason) -> None:
        self.dropped[why] += 1
        self.leave(connection)
        connection.line.cut()
