"""The first contact of an aiokafka client: it is repeated until a broker answers.

aiokafka asks each address once and gives up. A worker looks for the cluster before it starts its clients, and then a broker
that closes one connection, as it does while it restarts, must not end the worker. The private names that it uses are in
tests/transport/pins.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiokafka.errors import KafkaConnectionError

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5


class Bootstrap:
    """Repeats the first contact of one client."""

    def __init__(
        self, is_stopping: Callable[[], bool], pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """`is_stopping`: whether the client is not wanted any more; its fault is raised then."""
        self._is_stopping = is_stopping
        self._pause = pause

    def watch(self, client: Any) -> None:
        """Repeat it from now on."""
        once = client.bootstrap

        async def repeated() -> None:
            failures = 0
            while True:
                try:
                    await once()
                except KafkaConnectionError as fault:
                    if self._is_stopping():
                        raise
                    if failures == 0:
                        logger.warning(
                            "no Kafka broker answers, asking again",
                            extra={"reason": str(fault), "runbook": "docs/trouble.md#kafka-unavailable"},
                        )
                    failures += 1
                    await self._pause(_PAUSE_S)
                else:
                    if failures:
                        logger.info("a Kafka broker answers", extra={"failures": failures})
                    return

        client.bootstrap = repeated
