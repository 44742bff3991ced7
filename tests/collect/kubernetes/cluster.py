"""A cluster that a test changes step by step, and the events that a collector makes of it."""

from __future__ import annotations

import copy
import weakref
from datetime import UTC, datetime
from typing import Any

from streams.collect.collector import EventBatch, Position
from streams.collect.kubernetes.collector import open_collector
from streams.collect.kubernetes.options import Options
from streams.topics import Topic
from tests.collect.kubernetes.objects import T0_S
from tests.collect.kubernetes.server import Change, ReplayServer
from tests.collect.world import Log


class Cluster:
    """Objects in a replay server; each change has the next version."""

    def __init__(self, **options: Any) -> None:
        self.server = ReplayServer({})
        weakref.finalize(self, self.server.close)
        self.options = Options(url=self.server.url, since=datetime(2026, 9, 21, tzinfo=UTC), **options)
        self.log = Log()
        self.batches: list[EventBatch] = []
        self.position: Position | None = None

    def put(self, kind: str, *objects: dict[str, Any]) -> None:
        """Make or change objects."""
        known = {each["metadata"]["name"] for each in self.server.objects(kind)}
        for each in objects:
            self._add(kind, "MODIFIED" if each["metadata"]["name"] in known else "ADDED", each)

    def delete(self, kind: str, each: dict[str, Any]) -> None:
        """Remove an object that is there last like this."""
        self._add(kind, "DELETED", each)

    def poll(self, seconds: int) -> list[dict[str, Any]]:
        """Poll so many seconds after T0; return the new events."""
        before = len(self.log.events)
        for batch in open_collector(self.options).poll(self.position, (T0_S + seconds) * 1000):
            self.batches.append(batch)
            self.log.publish(batch.events)
            self.position = batch.position
        assert not self.log.refused()
        return [dict(event.value) for event in self.log.events[before:]]

    def jobs(self, seconds: int) -> list[tuple[Any, ...]]:
        """Poll, and return of each event of a job its attempt, type, time after T0 and GPUs."""
        self.poll(seconds)
        values = [event.value for event in self.log.events if event.topic == Topic.JOBS]
        values.sort(key=lambda value: (value["job_id"], value["attempt"], value["time_ms"]))
        return [
            (value["attempt"], value["type"], value["time_ms"] // 1000 - T0_S, value.get("gpu_count"))
            for value in values
        ]

    def last(self) -> dict[str, Any]:
        """Return the event that was published last."""
        return dict(self.log.events[-1].value)

    def _add(self, kind: str, type_: str, each: dict[str, Any]) -> None:
        self.server.shown += 1
        found = copy.deepcopy(each)
        found["metadata"]["resourceVersion"] = str(self.server.shown)
        self.server.changes[kind].append(Change(self.server.shown, type_, found))
