"""The list of all metrics that a worker exposes: name, kind, labels and meaning.

It must not count anything: a metric is added here first and counted by whoever knows the figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "trainfare_"


class Kind(StrEnum):
    """What a figure does over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; the name carries its unit."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


METRICS = (
    Metric(
        f"{PREFIX}records_total",
        Kind.COUNTER,
        ("topic", "partition", "outcome"),
        "Records read, by outcome: applied, duplicate, too_late, dead_lettered, trimmed. "
        "All but trimmed add up to the records of the log.",
    ),
    Metric(
        f"{PREFIX}dead_letters_total",
        Kind.COUNTER,
        ("topic", "reason"),
        "Records refused, by reason.",
    ),
    Metric(
        f"{PREFIX}rows_written_total",
        Kind.COUNTER,
        ("table",),
        "Rows acknowledged by ClickHouse.",
    ),
    Metric(
        f"{PREFIX}checkpoint_seconds",
        Kind.HISTOGRAM,
        (),
        "Time from the begin of a checkpoint to its Kafka commit.",
    ),
    Metric(
        f"{PREFIX}backlog_bytes",
        Kind.GAUGE,
        (),
        "Rows that wait for ClickHouse; reading pauses at meter.backlog_max_bytes.",
    ),
    Metric(
        f"{PREFIX}lag_records",
        Kind.GAUGE,
        ("topic", "partition"),
        "Records in the log that are not yet folded.",
    ),
    Metric(
        f"{PREFIX}watermark_timestamp_seconds",
        Kind.GAUGE,
        ("shard",),
        "Newest event time of a shard, as seconds since 1970 UTC.",
    ),
    Metric(
        f"{PREFIX}live_jobs",
        Kind.GAUGE,
        ("shard",),
        "Jobs in memory that have not ended.",
    ),
)
