"""Limits the server's connections: how many there may be, how slow each may be, and which one is closed first.

Times are handed in, and the owner of a connection closes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from operator import itemgetter
from typing import Final, Protocol


class ConnectionPhase(Enum):
    """What a connection waits for."""

    NEW = auto()  # its first byte
    HEADER = auto()  # the rest of a request's header; of its body, too, while no handler reads it
    ARRIVED = auto()  # us: a request is there, and no handler has read it
    BODY = auto()  # the rest of its body
    ANSWER = auto()  # us
    IDLE = auto()  # the next request
    HELD_BACK = auto()  # a refusal that we delay, as it guesses secrets


class RefusalReason(StrEnum):
    """Why a connection was refused."""

    ALL = "all"  # web.max_connections reached, and none of them waits for its client
    ADDRESS = "address"  # web.max_connections_per_address reached, likewise


class DropReason(StrEnum):
    """Why a connection was closed by the server."""

    HEADER = "header"
    BODY = "body"
    IDLE = "idle"
    NOT_READING = "not_reading"
    EVICTED = "evicted"  # it had waited longest for its client when another one arrived


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits for a client."""

    header_ms: int = 5_000  # from the connection to the first byte, and from there to the end of the header
    body_ms: int = 10_000
    idle_ms: int = 30_000
    crowded_idle_ms: int = 15_000  # while more than half of all connections are in use
    write_ms: int = 10_000  # in which a response must be read completely, or `write_min_bytes` of it
    write_min_bytes: int = 32 * 1024


PATIENCE: Final = Timeouts()


class SocketControl(Protocol):
    """The socket behind a connection."""

    def unsent_bytes(self) -> int:
        """The bytes written that the client has not received."""
        ...

    def cut(self) -> None:
        """Close immediately, and discard unsent data."""
        ...


_WAITING: Final = frozenset(
    {ConnectionPhase.NEW, ConnectionPhase.HEADER, ConnectionPhase.BODY, ConnectionPhase.IDLE}
)


_BEFORE_HEADER: Final = frozenset({ConnectionPhase.NEW, ConnectionPhase.ARRIVED, ConnectionPhase.IDLE})
_EVER_MS: Final = -1


class HttpConnection:
    """The state of one client connection, and since when."""

    __slots__ = (
        "_open",
        "_taken_bytes",
        "_unsent_bytes",
        "address",
        "is_trusted",
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
        self.is_trusted = False  # its client has shown a secret
        self.since_ms = now_ms  # when the phase began
        self.owes_ms = now_ms  # since when the client owes us data
        self.stalled_ms: int | None = None  # since when it has read too little of a response
        self._open = 0  # requests without a response yet
        self._unsent_bytes = 0
        self._taken_bytes = 0

    def arriving(self, *, is_whole: bool, now_ms: int) -> None:
        """Record that a request arrives at the socket, where no handler reads it yet."""
        if is_whole:
            self.phase, self.since_ms = ConnectionPhase.ARRIVED, now_ms
        elif self.phase is ConnectionPhase.NEW:
            self.phase, self.since_ms = ConnectionPhase.HEADER, now_ms

    def on_received(self, requests: int, *, body_is_due: bool, now_ms: int) -> None:
        """Record received bytes that completed this many headers."""
        self._open += requests
        if requests or self.phase is ConnectionPhase.BODY:
            self._enter(ConnectionPhase.BODY if body_is_due else ConnectionPhase.ANSWER, now_ms)
        elif self.phase in _BEFORE_HEADER:
            # The client's debt is older: a slow header must not look younger than a silent client.
            self.phase, self.since_ms = ConnectionPhase.HEADER, now_ms

    def answered(self, now_ms: int) -> None:
        """Record that a response was written; the client may still have to read it."""
        self._open = max(self._open - 1, 0)
        if not self._open:
            self._enter(ConnectionPhase.IDLE, now_ms)

    def held_back(self, now_ms: int) -> None:
        """Record that the client's refusal is delayed."""
        self._enter(ConnectionPhase.HELD_BACK, now_ms)

    def _enter(self, phase: ConnectionPhase, now_ms: int) -> None:
        if phase is not self.phase:
            self.phase, self.since_ms, self.owes_ms = phase, now_ms, now_ms

    def drained(self) -> None:
        """Record that the client has read nearly everything written."""
        self.stalled_ms = None

    def check_writes(self, now_ms: int, patience: Timeouts) -> None:
        """Compare the unsent bytes with the last check."""
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
        """Return since when the server waits for this client; None while the client waits for the server.

        Who guesses secrets has always kept it waiting.
        """
        if self.phase is ConnectionPhase.HELD_BACK:
            return _EVER_MS
        if self.phase in _WAITING:
            return self.owes_ms if self.stalled_ms is None else min(self.owes_ms, self.stalled_ms)
        return self.stalled_ms

    def overdue(self, now_ms: int, patience: Timeouts, *, crowded: bool) -> DropReason | None:
        """Why the connection must be closed; None while it may stay."""
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
        self._by_address: dict[str, dict[HttpConnection, None]] = {}  # ordered sets
        self.connections = 0
        self.refused: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def admit(self, address: str, line: SocketControl, now_ms: int) -> HttpConnection | RefusalReason:
        """Admit a connection, or return why not.

        If there is no room, the connection that has made the server wait longest is evicted: of the same address if
        that has too many, otherwise of the address that has most, so that a flood evicts itself and nobody else.  Of
        one address, as of a proxy, those whose client has shown a secret come last.
        """
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
        """Whether more than half of all connections are in use."""
        return self.connections * 2 > self._most

    def is_pressed(self, address: str) -> bool:
        """Whether more than half of all connections, or of those that this address may have, are in use."""
        return self.is_crowded or 2 * len(self._by_address.get(address, ())) > self._most_per_address

    def _refuse(self, why: RefusalReason) -> RefusalReason:
        self.refused[why] += 1
        return why

    def leave(self, connection: HttpConnection) -> None:
        """Remove a connection; it may be removed already."""
        of_address = self._by_address.get(connection.address)
        if of_address is None or connection not in of_address:
            return
        del of_address[connection]
        self.connections -= 1
        if not of_address:
            del self._by_address[connection.address]

    def close_stalled(self, now_ms: int) -> None:
        """Close connections that have made the server wait too long."""
        crowded = self.is_crowded
        for connection in list(self):
            connection.check_writes(now_ms, self._patience)
            why = connection.overdue(now_ms, self._patience, crowded=crowded)
            if why is not None:
                self._drop(connection, why)

    def cut_all(self) -> None:
        """Close every connection: the server stops."""
        for connection in list(self):
            self.leave(connection)
            connection.line.cut()

    def __iter__(self) -> Iterator[HttpConnection]:
        for of_address in self._by_address.values():
            yield from of_address

    def _evict(self, among: Collection[HttpConnection]) -> bool:
        # Not if they are most: those who come would then make room for them, before they can show anything.
        prefers_trusted = 2 * sum(each.is_trusted for each in among) <= len(among)
        waiting = (
            ((prefers_trusted and each.is_trusted, since_ms), each)
            for each in among
            if (since_ms := each.waits_since_ms()) is not None
        )
        # Of simultaneous connections the first.
        longest = min(waiting, key=itemgetter(0), default=None)
        if longest is None:
            return False
        self._drop(longest[1], DropReason.EVICTED)
        return True

    def _drop(self, connection: HttpConnection, why: DropReason) -> None:
        self.dropped[why] += 1
        self.leave(connection)
        connection.line.cut()
