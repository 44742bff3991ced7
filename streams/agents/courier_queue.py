"""The messages that wait: in order per alert and receiver, each with the instant of its next attempt.

It must not send anything, wait, or read a clock: every instant is handed in (monotonic ms).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection

from streams.agents.courier_parcel import Chain, Parcel
from streams.agents.courier_slots import Slots


class Outbox:
    """Per chain only the first parcel is ever due; the rest follow when it is finished."""

    def __init__(self, flying_at_most: int, flying_per_receiver: int) -> None:
        self._slots = Slots(flying_at_most, flying_per_receiver)
        self._chains: dict[Chain, deque[Parcel]] = {}
        self._due: list[tuple[int, int, Parcel]] = []
        self._size = 0
        self._entries = 0

    def __len__(self) -> int:
        return self._size

    @property
    def flying(self) -> int:
        """Attempts under way."""
        return self._slots.flying

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
        while self._due and self._due[0][0] <= now_ms:
            parcel = heapq.heappop(self._due)[2]
            if self._is_first(parcel):  # not dropped since
                self._slots.add(parcel)
        return self._slots.take(now_ms)

    def finish(self, parcel: Parcel, now_ms: int) -> None:
        """Its message is done with; the next one of the chain is due."""
        self._slots.land(parcel, now_ms)
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
        self._slots.land(parcel, now_ms)
        if self._is_first(parcel):
            parcel.attempt += 1
            self._push(parcel, due_ms)

    def next_due_ms(self) -> int | None:
        """When to look again; None: not before something lands or comes."""
        return self._due[0][0] if self._due else None

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
        self._slots.keep(kept)
        self._due = [entry for entry in self._due if kept(entry[2])]
        heapq.heapify(self._due)
        return before - self._size

    def _push(self, parcel: Parcel, due_ms: int) -> None:
        self._entries += 1  # of equal instants the earlier entry first
        heapq.heappush(self._due, (due_ms, self._entries, parcel))

    def _is_first(self, parcel: Parcel) -> bool:
        chain = self._chains.get(parcel.chain)
        return chain is not None and chain[0] is parcel
