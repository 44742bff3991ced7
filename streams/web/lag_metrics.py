"""The metrics of consumer lag, of the clock that it is measured by, and of what slows reading down.

No state: every value is of one status of the worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.fallbacks import WHAT
from streams.worker.health.worker_status import WorkerStatus


def collect(status: WorkerStatus) -> Iterable[Metric]:
    """Yield all of them."""
    yield _by_topic("trainfare_lag_records", "Records in the log, not metered yet.", status.lag_records)
    yield _by_topic(
        "trainfare_lag_seconds", "Age of the oldest record not metered yet.", _seconds(status.lag_ms)
    )
    yield _by_topic(
        "trainfare_transaction_records",
        "Of them, records that an open transaction holds.",
        status.transaction_records,
    )
    yield _by_topic(
        "trainfare_transaction_seconds",
        "For how long the oldest of those have waited.",
        _seconds(status.transaction_ms),
    )
    yield GaugeMetricFamily(
        "trainfare_shard_lag_records_max",
        "Records not metered yet of the shard that is farthest behind.",
        value=status.shard_lag_records_max,
    )
    yield GaugeMetricFamily(
        "trainfare_no_progress_seconds",
        "For how long a shard that is behind has metered nothing, the longest.",
        value=status.no_progress_ms / 1000,
    )
    yield GaugeMetricFamily(
        "trainfare_ledger_rules_lag_seconds",
        "Age of the last minute judged by the rules across jobs; 0 where another worker judges them.",
        value=status.ledger_rules_lag_ms / 1000,
    )
    yield CounterMetricFamily(
        "trainfare_own_rules_failed",
        "Times that a rule by SQL could not be judged, or only in part.",
        value=status.own_rules_failed,
    )
    slow = CounterMetricFamily(
        "trainfare_fallbacks", "Slow ways that were taken instead of a fast one, by what.", labels=["what"]
    )
    for what, count in (dict.fromkeys(WHAT, 0) | dict(status.fallbacks)).items():
        slow.add_metric([what], count)
    yield slow
    yield GaugeMetricFamily(
        "trainfare_clock_ahead_seconds",
        "By which this machine's clock is ahead of Kafka's log; below 0: behind.",
        value=status.clock_ahead_ms / 1000,
    )
    yield CounterMetricFamily(
        "trainfare_clock_faults",
        "Times that the clock came to differ from Kafka's log by over a minute.",
        value=status.clock_faults,
    )
    yield GaugeMetricFamily(
        "trainfare_shards_unowned",
        "Shards that no worker has owned for over 15 s.",
        value=status.shards_unowned,
    )
    yield CounterMetricFamily(
        "trainfare_rewound_shards",
        "Shards that had judged ticks ahead of the log, and went back.",
        value=status.shards_rewound,
    )


def _by_topic(name: str, documentation: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=["topic"])
    for topic, value in sorted(values.items()):
        family.add_metric([topic], float(value))
    return family


def _seconds(values_ms: Mapping[str, int]) -> dict[str, float]:
    return {topic: value_ms / 1000 for topic, value_ms in values_ms.items()}
