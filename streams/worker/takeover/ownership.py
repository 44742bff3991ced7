"""Restores a shard for this worker's generation; if the store has a later one, the group decides which is current."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from streams.worker.shards.ports import LogConsumer
from streams.worker.shards.versions import LaterGenerationError
from streams.worker.takeover.rehydrate import Rehydrator
from streams.worker.takeover.restore import Attempts, Restored

logger = logging.getLogger(__name__)

_ASK_AGAIN_S: Final = 1.0


async def restore_owned(
    rehydrator: Rehydrator,
    consumer: Callable[[], LogConsumer],
    load: Callable[[Attempts], Restored],
    attempts: Attempts,
    is_ours: Callable[[int], bool],
) -> Restored | None:
    """What `load` restores; None once the generation is no longer ours."""
    wanted = partial(is_ours, attempts.generation)
    while wanted():
        try:
            return await rehydrator.patiently(partial(load, attempts), wanted)
        except LaterGenerationError as later:
            logger.warning(
                "later owner found, asking the group which of them counts",
                extra={"generation": attempts.generation, "reason": str(later)},
            )
            if await consumer().confirm(attempts.generation):
                attempts.proven = later.newest
            else:
                await asyncio.sleep(_ASK_AGAIN_S)
    return None
