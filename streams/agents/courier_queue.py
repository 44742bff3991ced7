"""The messages that wait: in order per alert and receiver, each with the instant of its next attempt.

It must not send anything, wait, or read a clock: every instant is handed in (monotonic ms).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from streams.alerts.notice import Address, Alert, webhook_id

Chain: TypeAlias = tuple[str, str]  # alert_id, receiver


@dataclass(eq=False)
class Parcel:
    """One message for one receiver; `receiver` is how the address may be shown."""

    alert: Alert
    shard: int
    receiver: str
    address: Address = field(repr=False)
    attempt: int = 1  # the number of the next one, from 1

    @property
    def webhook_id(self) -> str:
        """The id of its message."""
        return webhook_id(self.alert.alert_id, self.alert.status, self.alert.changed_ms)

    @property
    def chain(self) -> Chain:
        """What it must keep in order with."""
        return self.alert.alert_id, self.receiver


class Outbox:
    """Per chain only the first parcel is ever due; the rest follow when it is finished."""

    def __init__(self, flying_at_most: int, flying_per_receiver: int) -> None:
        self._flying_at_most = flying_at_most
        self._flying_per_receiver = flying_per_receiver
        self._chains: dict[Chain, deque[Parcel]] = {}
        self._due: list[tuple[int, int, Parcel]] = []
        self._held_up: dict[str, deque[Parcel]] = {}  # due, but their receiver is busy
        self._flying: Counter[str] = Counter()
        self._size = 0
        self._entries = 0

    def __len__(self) -> int:
        return self._size

    @property
    def flying(self) -> int:
        """Attempts under way."""
        return self._flying.total()

    def put(self, parcel: Parcel, due_ms: int) -> bool:
        """Take a parcel; False if its message waits for that receiver already."""
        chain = self._chains.setdefault(parcel.chain, deque())
        if any(other.webhook_id == parcel.webhook_id for other in chain):
            return False
        chain.append(parcel)
        self._size += 1
        if len(chain) == 1:
            self._push(parcel, due_ms)
        return True

    def take(self, now_ms: int) -> list[Parcel]:
        """The parcels to attempt now; each must come back by `finish` or `again`."""
        taken: list[Parcel] = []
        while self._due and self._due[0][0] <= now_ms and self.flying < self._flying_at_most:
            parcel = heapq.heappop(self._due)[2]
            if not self._is_first(parcel):
                continue  # dropped since
            if self._flying[parcel.receiver] >= self._flying_per_receiver:
                self._held_up.setdefault(parcel.receiver, deque()).append(parcel)
                continue
            self._flying[parcel.receiver] += 1
            taken.append(parcel)
        return taken

    def finish(self, parcel: Parcel, now_ms: int) -> None:
        """Its message is done with; the next one of the chain is due."""
        self._landed(parcel, now_ms)
        chain = self._chains.get(parcel.chain)
        if chain is None or chain[0] is not parcel:
            return  # dropped since
        chain.popleft()
        self._size -= 1
        if chain:
            self._push(chain[0], now_ms)
        else:
            del self._chains[parcel.chain]

    def again(self, parcel: Parcel, now_ms: int, due_ms: int) -> None:
        """Attempt it once more, not before `due_ms`."""
        self._landed(parcel, now_ms)
        if self._is_first(parcel):
            parcel.attempt += 1
            self._push(parcel, due_ms)

    def next_due_ms(self) -> int | None:
        """When to look again; None: not before something lands or comes."""
        if not self._due or self.flying >= self._flying_at_most:
            return None
        return self._due[0][0]

    def drop(self, shards: Collection[int]) -> int:
        """Forget the parcels of these shards; attempts under way land as if nothing were. Returns how many."""
        return self._keep(lambda parcel: parcel.shard not in shards)

    def _keep(self, kept: Callable[[Parcel], bool]) -> int:
        before = self._size
        self._chains = {
            chain: left
            for chain, parcels in self._chains.items()
            if (left := deque(parcel for parcel in parcels if kept(parcel)))
        }
        self._size = sum(map(len, self._chains.values()))
        self._held_up = {
            receiver: left
            for receiver, parcels in self._held_up.items()
            if (left := deque(parcel for parcel in parcels if kept(parcel)))
        }
        self._due = [entry for entry in self._due if kept(entry[2])]
        heapq.heapify(self._due)
        return before - self._size

    def _push(self, parcel: Parcel, due_ms: int) -> None:
        self._entries += 1  # of equal instants the earlier entry first
        heapq.heappush(self._due, (due_ms, self._entries, parcel))

    def _landed(self, parcel: Parcel, now_ms: int) -> None:
        self._flying[parcel.receiver] -= 1
        if not self._flying[parcel.receiver]:
            del self._flying[parcel.receiver]
        held_up = self._held_up.get(parcel.receiver)
        if held_up:
            self._push(held_up.popleft(), now_ms)
            if not held_up:
                del self._held_up[parcel.receiver]

    def _is_first(self, parcel: Parcel) -> bool:
        chain = self._chains.get(parcel.chain)
        return chain is not None and chain[0] is parcel
