"""Builds events of the demo as records of the log, with ids that are the same in every run of a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from streams.topics import Topic

SOURCE: Final = "demo"


class DemoRecord(NamedTuple):
    """One event as it goes into the log."""

    topic: Topic
    time_ms: int
    value: bytes


class Writer:
    """Collects records; ids are sequential, so that two runs of one seed write the same bytes."""

    def __init__(self) -> None:
        self._records: list[DemoRecord] = []
        self._count = 0

    def drain(self) -> list[DemoRecord]:
        """What was written since the last call."""
        records, self._records = self._records, []
        return records

    def job(self, time_ms: int, job_id: str, attempt: int, kind: str, **fields: object) -> None:
        """Write a lifecycle event; fields that are None are left out."""
        self._write(Topic.JOBS, time_ms, {"job_id": job_id, "attempt": attempt, "type": kind, **fields})

    def node(self, time_ms: int, node: str, kind: str, fields: Mapping[str, object]) -> None:
        """Write what happened to a node."""
        self._write(Topic.NODES, time_ms, {"node": node, "type": kind, **fields})

    def gpu(
        self,
        time_ms: int,
        node: str,
        interval_ms: int,
        gpus: Sequence[str],
        util_ratio: Sequence[float],
        **fields: object,
    ) -> None:
        """Write a sample; one without `job_id` reports idle GPUs."""
        value = {"node": node, "interval_ms": interval_ms, "gpus": gpus, "util_ratio": util_ratio, **fields}
        self._write(Topic.GPU, time_ms, value)

    def network(
        self, time_ms: int, job_id: str, attempt: int, interval_ms: int, moved_bytes: int, **fields: object
    ) -> None:
        """Write an amount of traffic."""
        value = {"job_id": job_id, "attempt": attempt, "interval_ms": interval_ms, "bytes": moved_bytes}
        self._write(Topic.NETWORK, time_ms, {**value, **fields})

    def storage(
        self, time_ms: int, job_id: str, attempt: int, interval_ms: int, op: str, **fields: object
    ) -> None:
        """Write requests to storage, or the stored amount."""
        value = {"job_id": job_id, "attempt": attempt, "interval_ms": interval_ms, "op": op}
        self._write(Topic.STORAGE, time_ms, {**value, **fields})

    def price(self, time_ms: int, fields: Mapping[str, object]) -> None:
        """Write a revision of a price."""
        self._write(Topic.PRICES, time_ms, fields)

    def control(self, time_ms: int, kind: str, name: str, **fields: object) -> None:
        """Write a control, e.g. an owner's address."""
        self._write(Topic.CONTROLS, time_ms, {"kind": kind, "name": name, **fields})

    def rule(self, time_ms: int, fields: Mapping[str, object]) -> None:
        """Write settings of a rule."""
        self._write(Topic.CONTROLS, time_ms, {"kind": "rule", **fields})

    def _write(self, topic: Topic, time_ms: int, fields: Mapping[str, object]) -> None:
        self._count += 1
        named = {name: value for name, value in fields.items() if value is not None}
        event = {"source": SOURCE, "id": str(self._count), "time_ms": time_ms, **named}
        self._records.append(DemoRecord(topic, time_ms, orjson.dumps(event)))
