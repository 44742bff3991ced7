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

    def put(self, delivery: Delivery, due_ms: int) -> bool:
        """Queue a delivery; return False if its message is queued for that receiver already."""
        chain = self._chains.setdefault(delivery.chain, deque())
        if any(other.webhook_id == delivery.webhook_id for other in chain):
            return False
        chain.append(delivery)
        self._size += 1
        self._size_of[delivery.host] += 1
        if len(chain) == 1:
            self._push(delivery, due_ms)
        return True

    def pop_due(self, now_ms: int) -> list[Delivery]:
        """The deliveries to attempt now; each must be returned by `finish` or `again`."""
        while self._due and self._due[0][0] <= now_ms:
            delivery = heapq.heappop(self._due)[2]
            if self._is_first(delivery):  # not dropped meanwhile
                self._slots.add(delivery)
        return self._slots.pop_due(now_ms)

    def finish(self, delivery: Delivery, now_ms: int) -> None:
        """Remove a finished delivery; the next one of the chain is due."""
        self._finished(delivery, now_ms, is_ill=False)
        chain = self._chains.get(delivery.chain)
        if chain is None or chain[0] is not delivery:
            return  # dropped meanwhile
        chain.popleft()
        self._size -= 1
        self._leave(delivery.host)
        if chain:
            self._push(chain[0], now_ms)
        else:
            del self._chains[delivery.chain]

    def again(self, delivery: Delivery, now_ms: int, due_ms: int) -> None:
        """Schedule another attempt at `due_ms`."""
        self._finished(delivery, now_ms, is_ill=True)
        if self._is_first(delivery):
            delivery.attempt += 1
            self._push(delivery, due_ms)

    def next_due_ms(self) -> int | None:
        """Return when the next attempt is due; None: not before an attempt ends or a delivery is added."""
        starts = (self._due[0][0] if self._due else None, self._slots.next_start_ms())
        return min((each for each in starts if each is not None), default=None)

    def is_full(self, delivery: Delivery) -> bool:
        """Whether the queue of an unhealthy receiver is full; never for a delivery already queued."""
        if delivery.host not in self._ill or self._size_of[delivery.host] < self._share_of_ill():
            return False
        chain = self._chains.get(delivery.chain, ())
        return all(other.webhook_id != delivery.webhook_id for other in chain)

    def shed(self, host: str) -> set[int]:
        """Drop the newest deliveries to an unhealthy receiver beyond its share; return their shards."""
        share = self._share_of_ill()
        if host not in self._ill or self._size_of[host] <= share:
            return set()
        excess, shed = (
            self._size_of[host] - share // 2,
            set[Delivery](),
        )  # down to half, so that it happens rarely
        for deliveries in reversed(self._chains.values()):
            if len(shed) >= excess:
                break
            first = deliveries[0]
            if first.host == host and first.is_sheddable and not self._slots.is_in_flight(first):
                shed.update(deliveries)
        self._keep(lambda delivery: delivery not in shed)
        return {delivery.shard for delivery in shed}

    def drop(self, shards: Collection[int]) -> int:
        """Drop the deliveries of these shards; attempts in flight end normally. Return how many were dropped."""
        return self._keep(lambda delivery: not delivery.leave(shards))

    def _keep(self, kept: Callable[[Delivery], bool]) -> int:
        before = self._size
        self._chains = {
            chain: left
            for chain, deliveries in self._chains.items()
            if (left := deque(delivery for delivery in deliveries if kept(delivery)))
        }
        self._size = sum(map(len, self._chains.values()))
        self._size_of = Counter(
            delivery.host for deliveries in self._chains.values() for delivery in deliveries
        )
        self._ill &= self._size_of.keys()
        self._slots.retain(kept)
        self._due = [entry for entry in self._due if kept(entry[2])]
        heapq.heapify(self._due)
        return before - self._size

    def _push(self, delivery: Delivery, due_ms: int) -> None:
        self._entries += 1  # for equal instants, first in first out
        heapq.heappush(self._due, (due_ms, self._entries, delivery))

    def _finished(self, delivery: Delivery, now_ms: int, *, is_ill: bool) -> None:
        self._slots.finish(delivery, now_ms)
        if (is_ill or self._slots.is_slow(delivery.host)) and self._size_of[delivery.host]:
            self._ill.add(delivery.host)
        else:
            self._ill.discard(delivery.host)

    def _leave(self, host: str) -> None:
        self._size_of[host] -= 1
        if not self._size_of[host]:
            del self._size_of[host]
            self._ill.discard(host)

    def _share_of_ill(self) -> int:
        return max(self._ill_at_most // max(len(self._ill), 1), 1)

    def _is_first(self, delivery: Delivery) -> bool:
        chain = self._chains.get(delivery.chain)
        return chain is not None and chain[0] is delivery
