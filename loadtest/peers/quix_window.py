"""Quix Streams: tumbling_window(...).agg(sum, count).final(), RocksDB state with its changelog.

A window comes out when a later record of the same key arrives, so the topic holds one flushing message per
job at its end. Tried, CPU s per million W1 messages: as it comes 44; a client tuned for throughput 42;
commits each 30 s and a changelog gathered for 0.1 s besides 36 (this).
"""

from __future__ import annotations

import threading
import time
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

from loadtest.peers.task import Pass, Task, Total, Window

_SETTLE_S = 0.05  # the last message is counted before its window is emitted


def main() -> None:
    """Run until every message was seen."""
    task = Task.given()
    clock = Pass(task)
    seen = 0
    emitted: dict[Window, Total] = {}
    app = Application(
        broker_address=task.bootstrap_servers,
        consumer_group=task.group,
        auto_offset_reset="earliest",
        state_dir=task.directory,
        loglevel="WARNING",
        commit_interval=30.0,
        producer_extra_config={
            "linger.ms": 100,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
        },
        consumer_extra_config={
            "fetch.queue.backoff.ms": 2,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 4 << 20,
        },
    )
    topic = app.topic(
        task.topic,
        key_deserializer="str",
        value_deserializer="json",
        timestamp_extractor=lambda value, _headers, _time_ms, _kind: value["time_ms"],
    )

    def use(value: dict[str, Any]) -> float:
        nonlocal seen
        if not seen:
            clock.first()
        seen += 1
        return float(sum(value["util_ratio"]))

    def emit(value: dict[str, Any], key: str, _time_ms: int, _headers: object) -> dict[str, Any]:
        emitted[key, value["start"]] = (value["use"], value["count"] * task.gpus_per_message)
        return value

    def watch() -> None:
        while seen < task.messages:
            time.sleep(0.002)
        time.sleep(_SETTLE_S)
        clock.done(emitted, note="one flushing message per job")

    frame = app.dataframe(topic).apply(use)
    frame.tumbling_window(task.window_ms, grace_ms=0).agg(use=Sum(), count=Count()).final().apply(
        emit, metadata=True
    )
    threading.Thread(target=watch, daemon=True).start()
    app.run()


if __name__ == "__main__":
    main()
