"""The summary of a demo run: the figures of its last screen, read from the store."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sinks.clickhouse import ClickHouseStore
from streams.engine.shard.books import Books

_TOTALS = """
SELECT
    (SELECT count() FROM jobs FINAL) AS jobs,
    (SELECT sum(cost_usd) FROM job_costs) AS usd,
    (SELECT sum(gpu_s) FROM job_costs) AS gpu_s,
    (SELECT sum(lost_cost_usd) FROM job_costs) AS lost_usd,
    (SELECT sum(now) FROM (SELECT argMax(usd_per_hour_now, time) AS now FROM burn_rates FINAL GROUP BY job_id))
        AS usd_per_hour,
    (SELECT countIf(outcome = 'delivered') FROM deliveries FINAL) AS delivered,
    (SELECT count() FROM alerts FINAL) AS alerts
"""


@dataclass(frozen=True)
class Summary:
    """The whole run."""

    seconds: float
    event_hours: float
    jobs: int
    gpu_hours: Decimal
    usd: Decimal
    lost_usd: Decimal
    usd_per_hour: Decimal
    alerts: int
    delivered: int
    books: Books


def summary_of(store: ClickHouseStore, books: Books, seconds: float, event_hours: float) -> Summary:
    """Read the summary from the store, after everything was stored."""
    totals = store.query(_TOTALS).to_pylist()[0]
    return Summary(
        seconds=round(seconds, 1),
        event_hours=round(event_hours, 2),
        jobs=int(totals["jobs"]),
        gpu_hours=Decimal(totals["gpu_s"] or 0) / 3_600,
        usd=Decimal(totals["usd"] or 0),
        lost_usd=Decimal(totals["lost_usd"] or 0),
        usd_per_hour=Decimal(totals["usd_per_hour"] or 0),
        alerts=int(totals["alerts"]),
        delivered=int(totals["delivered"]),
        books=books,
    )
