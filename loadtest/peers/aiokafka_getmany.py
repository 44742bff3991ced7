"""The limit of a client: aiokafka's getmany() alone."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer

from loadtest.peers.task import Pass, Task

FETCH_BYTES = 4 << 20
BATCH = 20_000


async def main() -> None:
    """Read the topic."""
    task = Task.given()
    clock = Pass(task)
    consumer = AIOKafkaConsumer(
        task.topic,
        bootstrap_servers=task.bootstrap_servers,
        group_id=task.group,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    seen = 0
    while seen < task.messages:
        for messages in (await consumer.getmany(timeout_ms=200, max_records=BATCH)).values():
            clock.first()
            seen += len(messages)
    clock.done(None, seen)


if __name__ == "__main__":
    asyncio.run(main())
