"""Makes the group's leader assign only from whole metadata, and a member ask again where shards were left out.

It runs in the consumer thread. The private names of aiokafka that it uses are in tests/transport/pins.py.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Final

from streams.transport.assignor import MeterAssignor
from streams.transport.whole_metadata import WholeMetadata

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0


class AskingAgain:
    """The assignments of one consumer."""

    def __init__(self, assignor: MeterAssignor, session_timeout_s: float, whole: WholeMetadata) -> None:
        self._assignor = assignor
        # A leader sends no heartbeats while it assigns.
        self._within_s = session_timeout_s / 3
        self._whole = whole
        self._coordinator: Any = None
        self._pause_s = _FIRST_PAUSE_S
        self._due: asyncio.TimerHandle | None = None

    def watch(self, coordinator: Any) -> None:
        """Let this coordinator, where it leads the group, wait for whole metadata before it assigns."""
        self._coordinator = coordinator
        perform = coordinator._perform_assignment

        async def whole(response: Any) -> Any:
            await self._whole.wait(self._within_s)
            return await perform(response)

        coordinator._perform_assignment = whole

    def assigned(self) -> None:
        """Look at a new assignment: shards that nobody got are asked for again, later each time."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        left_out = self._assignor.without_owner()
        if not left_out:
            self._pause_s = _FIRST_PAUSE_S
            return
        # Members ask at different instants: after the first of them has, the others have nothing to ask for.
        pause_s = self._pause_s * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        logger.error(
            "the group's leader gave shards to nobody, joining again",
            extra={
                "shards": sorted(left_out),
                "retry_s": round(pause_s, 1),
                "runbook": "docs/trouble.md#shards-without-an-owner",
            },
        )
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._due = asyncio.get_running_loop().call_later(pause_s, self.ask)

    def ask(self) -> None:
        """Join again with other metadata than before, which makes the broker begin a rebalance.

        Where we lead the group, what we know of its topics may be what is wrong.
        """
        self._assignor.asked_again ^= 1
        self._coordinator._client.force_metadata_update()
        self._coordinator.request_rejoin()
