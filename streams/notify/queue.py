"""The queue of waiting messages: in order per alert and receiver, each with the time of its next attempt."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection

from streams.notify.delivery import AlertReceiver, Delivery
from streams.notify.slots import AttemptSlots


class DeliveryQueue:
    """Only the first delivery of each chain is due; the others follow when it is finished."""

    def __init__(
        self,
        in_flight_at_most: int,
        in_flight_per_receiver: int,
        ill_at_most: int = 2_500,
        starts_per_s: int | None = None,
    ) -> None:
        self._slots = AttemptSlots(in_flight_at_most, in_flight_per_receiver, starts_per_s)
        self._ill_at_most = ill_at_most
        self._ill: set[str] = set()  # unhealthy hosts with messages: the last attempt failed or was slow
        self._size_of: Counter[str] = Counter()  # messages by host
        self._chains: dict[AlertReceiver, deque[Delivery]] = {}
        self._due: list[tuple[int, int, Delivery]] = []
        self._size = 0
        self._entries = 0

    def __len__(self) -> int:
        return self._size

    @property
    def in_flight(self) -> int:
        """Return the attempts in flight."""
        return self._slots.in_flight

    def put(self, parcel: Delivery, due_ms: int) -> bool:
        """Queue a delivery; return False if its message is queued for that receiver already."""
        chain = self._chains.setdefault(parcel.chain, deque())
        if any(other.webhook_id == parcel.webhook_id for other in chain):
            return False
        chain.append(parcel)
        self._size += 1
        self._size_of[parcel.host] += 1
        if len(chain) == 1:
            self._push(parcel, due_ms)
        return True

    def pop_due(self, now_ms: int) -> list[Delivery]:
        """Return the deliveries to attempt now; each must be returned by `finish` or `again`."""
        while self._due and self._due[0][0] <= now_ms:
            parcel = heapq.heappop(self._due)[2]
            if self._is_first(parcel):  # not dropped meanwhile
                self._slots.add(parcel)
        return self._slots.pop_due(now_ms)

    def finish(self, parcel: Delivery, now_ms: int) -> None:
        """Remove a finished delivery; the next one of the chain is due."""
        self._landed(parcel, now_ms, is_ill=False)
        chain = self._chains.get(parcel.chain)
        if chain is None or chain[0] is not parcel:
            return  # dropped meanwhile
        chain.popleft()
        self._size -= 1
        self._leave(parcel.host)
        if chain:
            self._push(chain[0], now_ms)
        else:
            del self._chains[parcel.chain]

    def again(self, parcel: Delivery, now_ms: int, due_ms: int) -> None:
        """Schedule another attempt at `due_ms`."""
        self._landed(parcel, now_ms, is_ill=True)
        if self._is_first(parcel):
            parcel.attempt += 1
            self._push(parcel, due_ms)

    def next_due_ms(self) -> int | None:
        """Return when the next attempt is due; None: not before an attempt ends or a delivery is added."""
        starts = (self._due[0][0] if self._due else None, self._slots.next_start_ms())
        return min((each for each in starts if each is not None), default=None)

    def is_full(self, parcel: Delivery) -> bool:
        """Return whether the queue of an unhealthy receiver is full; never for a delivery already queued."""
        if parcel.host not in self._ill or self._size_of[parcel.host] < self._share_of_ill():
            return False
        chain = self._chains.get(parcel.chain, ())
        return all(other.webhook_id != parcel.webhook_id for other in chain)

    def shed(self, host: str) -> set[int]:
        """Drop the newest deliveries to an unhealthy receiver beyond its share; return their shards."""
        share = self._share_of_ill()
        if host not in self._ill or self._size_of[host] <= share:
            return set()
        excess, shed = (
            self._size_of[host] - share // 2,
            set[Delivery](),
        )  # down to half, so that it happens rarely
        for parcels in reversed(self._chains.values()):
            if len(shed) >= excess:
                break
            first = parcels[0]
            if first.host == host and first.is_sheddable and not self._slots.flies(first):
                shed.update(parcels)
        self._keep(lambda parcel: parcel not in shed)
        return {parcel.shard for parcel in shed}

    def drop(self, shards: Collection[int]) -> int:
        """Drop the deliveries of these shards; attempts in flight end normally. Return how many were dropped."""
        return self._keep(lambda parcel: not parcel.leave(shards))

    def _keep(self, kept: Callable[[Delivery], bool]) -> int:
        before = self._size
        self._chains = {
            chain: left
            for chain, parcels in self._chains.items()
            if (left := deque(parcel for parcel in parcels if kept(parcel)))
        }
        self._size = sum(map(len, self._chains.values()))
        self._size_of = Counter(parcel.host for parcels in self._chains.values() for parcel in parcels)
        self._ill &= self._size_of.keys()
        self._slots.retain(kept)
        self._due = [entry for entry in self._due if kept(entry[2])]
        heapq.heapify(self._due)
        return before - self._size

    def _push(self, parcel: Delivery, due_ms: int) -> None:
        self._entries += 1  # for equal instants, first in first out
        heapq.heappush(self._due, (due_ms, self._entries, parcel))

    def _landed(self, parcel: Delivery, now_ms: int, *, is_ill: bool) -> None:
        self._slots.land(parcel, now_ms)
        if (is_ill or self._slots.is_slow(parcel.host)) and self._size_of[parcel.host]:
            self._ill.add(parcel.host)
        else:
            self._ill.discard(parcel.host)

    def _leave(self, host: str) -> None:
        self._size_of[host] -= 1
        if not self._size_of[host]:
            del self._size_of[host]
            self._ill.discard(host)

    def _share_of_ill(self) -> int:
        return max(self._ill_at_most // max(len(self._ill), 1), 1)

    def _is_first(self, parcel: Delivery) -> bool:
        chain = self._chains.get(parcel.chain)
        return chain is not None and chain[0] is parcel
