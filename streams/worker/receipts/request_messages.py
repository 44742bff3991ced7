"""Tells those who may confirm what waits for a second person, in the worker that owns shard 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from weakref import ref

from schemas.events import ControlEvent
from schemas.validate_requests import WaitingRequest, waiting_request
from streams.config.confirmers import Confirmer
from streams.notify.history import RECEIPT_SHARD
from streams.notify.links import Links
from streams.notify.notice import Notice
from streams.notify.request_notice import request_notice
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import AlertSink


class RequestMessages:
    """Call `step` again and again.

    What waits is read from the log, so another owner of the shard offers it anew; what was delivered is known to the notifier.

    Args:
        requests: The records of what waits, by key.
        confirmers: Who gets messages.
        alert_sink: What delivers.
        links: What links begin with.
        now_ms: Log time, ms since 1970.
    """

    def __init__(
        self,
        requests: Callable[[], Mapping[bytes, ControlEvent]],
        confirmers: Sequence[Confirmer],
        alert_sink: AlertSink,
        links: Links,
        now_ms: Callable[[], int],
    ) -> None:
        self._requests = requests
        self._confirmers = confirmers
        self._alert_sink = alert_sink
        self._links = links
        self._now_ms = now_ms
        self._owner: ref[OwnedShard] | None = None
        self._offered: set[str] = set()  # ids of messages

    def step(self, owner: OwnedShard | None) -> list[Notice]:
        """Hand on what is new; return it."""
        if owner is None or owner.gone:
            return []
        if self._owner is None or self._owner() is not owner:
            self._owner, self._offered = ref(owner), set()
        now_ms = self._now_ms()
        waits = [(event.time_ms, waiting_request(event)) for event in self._requests().values()]
        found = [
            request_notice(request, asked_ms, to, self._links)
            for asked_ms, request in waits
            if not request.confirmed_by and now_ms < request.until_ms
            for to in self._confirmers
            if _may_be_asked(to, request)
        ]
        new = [each for each in found if each.alert_id not in self._offered]
        self._offered = {each.alert_id for each in found}
        if new:
            self._alert_sink.offer(new, RECEIPT_SHARD)
        return new


def _may_be_asked(to: Confirmer, request: WaitingRequest) -> bool:
    """Whether it is about their team, and not asked for by the token that its link stands for."""
    inner = request.control.get("match")
    named = {**request.control, **(inner if isinstance(inner, Mapping) else {})}
    return (not to.team or named.get("team") == to.team) and (not to.identity or to.identity != request.by)
