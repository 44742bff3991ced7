"""Tracks whether the consumer group still counts this worker as a member, and repeats a join that came to nothing.

It runs in the consumer thread, around aiokafka's coordinator. The private names that it uses are in
tests/transport/pins.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from aiokafka.errors import KafkaError, UnknownMemberIdError
from aiokafka.protocol.commit import OffsetCommitRequest

from streams.errors import TrainfareError
from streams.transport.whole_metadata import NotWholeError

logger = logging.getLogger(__name__)

NO_GENERATION: Final = -1
_REPEAT_S: Final = 0.2


class Membership:
    """The membership of one consumer; `displaced` is called in the consumer thread when another worker joined under our name."""

    def __init__(
        self, session_timeout_s: float, instance_id: str | None, displaced: Callable[[TrainfareError], None]
    ) -> None:
        self._session_timeout_s = session_timeout_s
        self._instance_id = instance_id
        self._displaced = displaced
        # When the last request was sent whose response confirmed our membership: responses may wait while we are
        # frozen.
        self._ok_s = self._joining_s = -1e9
        # When the last answered heartbeat was sent, and in which generation.
        self._confirmed = (-1e9, NO_GENERATION)

    def watch(self, coordinator: Any) -> None:
        """Observe the coordinator from now on."""
        beat, join, send = coordinator._do_heartbeat, coordinator._do_rejoin_group, coordinator._send_req

        async def noted() -> bool:
            sent_s, generation = time.monotonic(), int(coordinator.generation)
            answered = bool(await beat())
            if answered:
                self._ok_s = sent_s
                self._confirmed = (sent_s, generation)
            return answered

        async def joining(subscription: Any) -> Any:
            self._joining_s = time.monotonic()
            try:
                return await join(subscription)
            except KafkaError as fault:
                if not isinstance(fault.__cause__, NotWholeError):
                    raise
                logger.warning(
                    "shards cannot be assigned yet, joining again",
                    extra={
                        "reason": str(fault.__cause__),
                        "runbook": "docs/trouble.md#shards-without-an-owner",
                    },
                )
                await asyncio.sleep(_REPEAT_S)
                return False

        async def heard(request: Any) -> Any:
            response = await send(request)
            if self._instance_id is not None and is_unknown_member(response) and self.is_recent():
                # Joining again would only take the name back, and neither worker would ever meter.
                coordinator.request_rejoin = _nothing
                self._displaced(
                    TrainfareError(
                        f"another worker has joined as kafka.group_instance_id={self._instance_id}; "
                        "give each worker a name of its own, or none"
                    )
                )
            return response

        coordinator._do_heartbeat, coordinator._do_rejoin_group = noted, joining
        coordinator._send_req = heard

    def joined(self) -> None:
        """Record a successful join, which counts as a heartbeat."""
        self._ok_s = max(self._ok_s, self._joining_s)

    def is_recent(self) -> bool:
        """Whether our session has not expired: until then the group removes no member by itself."""
        return time.monotonic() - self._ok_s < self._session_timeout_s

    def confirmed(self, generation: int, since_s: float) -> bool:
        """Whether a heartbeat of this generation, sent at or after `since_s`, was answered."""
        sent_s, confirmed = self._confirmed
        return confirmed == generation and sent_s >= since_s


def is_unknown_member(response: Any) -> bool:
    """Whether a heartbeat, join or commit response reports that we are not a member."""
    unknown = UnknownMemberIdError.errno
    if getattr(response, "error_code", 0) == unknown:
        return True
    if getattr(response, "API_KEY", None) != OffsetCommitRequest.API_KEY:
        return False
    return any(error_code == unknown for _, places in response.topics for _, error_code in places)


def _nothing() -> None:
    """Replaces rejoining."""
