"""Sends the canary's events to Kafka and reads their cost by SQL, as a user would.

Its calls block, each kind in a thread of its own, so that one that hangs blocks nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.canary_proof import CanaryProof
from schemas.columns import instants, rows_of
from schemas.tables import CANARY, SCHEMAS
from schemas.units import NANO_PER_USD
from sinks.port import Store
from streams.config.settings import KafkaSettings
from streams.selfcheck.canary.judge import CanaryResult, CanaryRows
from streams.selfcheck.canary.plan import EXPECTED_NANO, Event
from streams.topics import full_name
from streams.transport.security import librdkafka_config

_POLL_S: Final = 0.1
#: Events that Kafka has not accepted by then are given up: the next run has its own.
_GIVE_UP_MS: Final = 300_000

_LOOK: Final = """
SELECT j.job_id AS job_id, toString(j.state) AS state, j.wall_clock_ms AS wall_clock_ms,
       toInt64(m.cost_usd * 1000000000) AS cost_nano, toInt64(m.bytes) AS network_bytes, toInt64(u.sampled) AS sampled_gpu_s
FROM (SELECT job_id, state, wall_clock_ms FROM jobs FINAL WHERE job_id IN {jobs:Array(String)}) AS j
LEFT ANY JOIN
(
    SELECT job_id, sumIf(job_minutes.cost_usd, component = 'gpu') AS cost_usd, sumIf(quantity, component = 'network') AS bytes
    FROM job_minutes FINAL WHERE job_id IN {jobs:Array(String)} AND quantity != 0 GROUP BY job_id
) AS m ON m.job_id = j.job_id
LEFT ANY JOIN
(
    SELECT job_id, sum(sampled_gpu_s) AS sampled
    FROM job_usage_minutes FINAL WHERE job_id IN {jobs:Array(String)} GROUP BY job_id
) AS u ON u.job_id = j.job_id
"""


class CanarySender:
    """A producer of its own; `send` returns when all events are acknowledged."""

    def __init__(self, kafka: KafkaSettings, proof: CanaryProof) -> None:
        self._proof = proof
        self._prefix = kafka.topic_prefix
        self._producer = Producer(
            {
                **librdkafka_config(kafka),
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": _GIVE_UP_MS,
            }
        )

    def send(self, events: Iterable[Event], stopped: Callable[[], bool]) -> str:
        """Send events to the partition of their key; return why they are not all in the log, empty if they are."""
        faults: list[str] = []
        left = 0

        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                faults.append(f"{message.topic()}: {error.str()}")

        for topic, key, value in events:
            name = full_name(topic, self._prefix)
            try:
                self._producer.produce(name, self._proof.signed(topic, value), key, on_delivery=delivered)
            except (BufferError, KafkaException) as fault:
                return f"{name}: {fault}"
            left += 1
        while left and not stopped():
            self._producer.poll(_POLL_S)
        return faults[0] if faults else ("stopped" if left else "")


def fetch_rows(store: Store, job_ids: Sequence[str]) -> dict[str, CanaryRows]:
    """The stored rows of these jobs.

    Raises:
        SinkBusy: The store does not answer in time.
    """
    rows = rows_of(store.query(_LOOK, {"jobs": list(job_ids)}))
    return {row.pop("job_id"): CanaryRows(**row) for row in rows}


def canary_table(result: CanaryResult, version: int) -> pa.Table:
    """Build the result's row; a later version of the run's row replaces it."""
    schema = SCHEMAS[CANARY]
    row: dict[str, Any] = {
        "job_id": result.run.job_id,
        "shard": result.run.shard,
        "expected_usd": _usd(EXPECTED_NANO),
        "found_usd": None if result.found_nano is None else _usd(result.found_nano),
        "delay_ms": result.delay_ms,
        "outcome": result.outcome,
        "detail": result.detail,
        "version": version,
    }
    arrays = {name: pa.array([value], schema.field(name).type) for name, value in row.items()}
    arrays["time"] = instants([result.run.at_ms])
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _usd(nano: int) -> Decimal:
    return Decimal(nano) / NANO_PER_USD
