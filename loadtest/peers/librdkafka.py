"""The limit of a client: confluent-kafka's consume() alone, or with msgspec and a dict of totals.

It keeps no state that survives it and commits nothing: no engine can be this bare.
"""

from __future__ import annotations

import sys

import msgspec
from confluent_kafka import Consumer

from loadtest.peers.task import Pass, Task

BATCH = 10_000
TUNED = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 2, "fetch.message.max.bytes": 4 << 20}


class Message(msgspec.Struct, gc=False):
    """The fields of a `gpu` message that the job needs."""

    job_id: str
    time_ms: int
    util_ratio: list[float]


def main(modes: list[str]) -> None:
    """Read the topic; `tuned` and `totals` may be among the modes."""
    task = Task.given()
    clock = Pass(task)
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap_servers,
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            **(TUNED if "tuned" in modes else {}),
        }
    )
    consumer.subscribe([task.topic])
    decode = msgspec.json.Decoder(Message).decode
    totals: dict[tuple[str, int], tuple[float, int]] = {}
    seen = 0
    while seen < task.messages:
        messages = consumer.consume(BATCH, 0.2)
        if not messages:
            continue
        clock.first()
        seen += len(messages)
        if "totals" in modes:
            for each in messages:
                message = decode(each.value() or b"")
                key = (message.job_id, message.time_ms - message.time_ms % task.window_ms)
                use, count = totals.get(key, (0.0, 0))
                totals[key] = (use + sum(message.util_ratio), count + len(message.util_ratio))
    clock.done(totals if "totals" in modes else None, seen)


if __name__ == "__main__":
    main(sys.argv[2:])
