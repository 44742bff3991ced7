"""What the same log costs who only counts it: librdkafka with settings that do not wait, in a process of its own.

`python -m loadtest.limit --bootstrap H:P --topic T --messages N` prints a JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from loadtest.stopwatch import run_delay_s

#: Without the first, librdkafka's default, each 100,000 queued records cost a pause of a second.
TUNED: Final = {
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 1_000_000,
    "fetch.message.max.bytes": 4 * 2**20,
}
_AT_ONCE: Final = 10_000
_PATIENCE_S: Final = 60.0
_DECODED: Final = 50_000
_MILLION: Final = 1_000_000


class _Sample(msgspec.Struct, gc=False):
    """A `gpu` message as whoever trusts it would decode it."""

    time_ms: int
    interval_ms: int
    node: str
    job_id: str
    gpus: list[str]
    util_ratio: list[float]


def count(bootstrap_servers: str, topic: str, messages: int) -> dict[str, float]:
    """Read so many messages; CPU from before the first fetch, the pace from the first message on."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "limit", "enable.auto.commit": False, **TUNED}
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    cpu_s, deadline_s = time.process_time(), time.monotonic() + _PATIENCE_S
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    seen, first_s, delay_s = 0, 0.0, 0.0
    kept: list[Message] = []
    while seen < messages:
        found = consumer.consume(_AT_ONCE, 0.2)
        if not found and time.monotonic() > deadline_s:
            raise SystemExit(f"limit: {seen:,} of {messages:,} messages came")
        if found and not seen:
            first_s, delay_s = time.time(), run_delay_s()
        seen += len(found)
        if len(kept) < _DECODED:
            kept += found
    wall_s, cpu_s = time.time() - first_s, time.process_time() - cpu_s
    busy_s = wall_s - (run_delay_s() - delay_s)
    values = [message.value() for message in kept[:_DECODED]]
    consumer.close()
    return {
        "messages": seen,
        "wall_s": wall_s,
        "cpu_us_per_message": cpu_s / seen * _MILLION,
        "messages_per_s": seen / wall_s,
        "pace_per_s": seen / busy_s,
        "decode_us_per_message": _decoded(values) * _MILLION,
    }


def _decoded(values: Sequence[bytes | None]) -> float:
    decode = msgspec.json.Decoder(_Sample).decode
    cpu_s = time.process_time()
    for value in values:
        decode(value or b"")
    return (time.process_time() - cpu_s) / len(values)


def main(argv: Sequence[str] | None = None) -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="limit", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--messages", type=int, required=True)
    options = parser.parse_args(argv)
    try:
        found = count(options.bootstrap, options.topic, options.messages)
    except KafkaException as fault:
        sys.stderr.write(f"limit: {fault}\n")
        return 1
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
