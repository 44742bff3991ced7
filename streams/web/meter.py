"""GET /api/v1/meter: whether the meter can be trusted now, and what mends what is wrong."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from schemas.durations import DAY_MS
from schemas.reserved import USERS_JOBS
from schemas.units import readable
from streams.accounts.listed import ACCOUNTS, REASONS, listed
from streams.accounts.refused import GROUPS, advice_of
from streams.web import meter_faults
from streams.web.cache import Cache
from streams.web.encode import ms
from streams.web.errors import ApiError
from streams.web.figures import ApiFigures
from streams.web.last_audit import LastAudit
from streams.web.store_reader import Row, StoreReader
from streams.worker.health.worker_status import Check, WorkerStatus

Object = dict[str, Any]

SOURCES_MAX: Final = 200
GROUPS_MAX: Final = 200
#: What is older counts as nothing to mend: it stays in the lists.
RECENT_DAYS: Final = 7
_UNPRICED_MAX: Final = 50
_TTL_MS: Final = 5_000
_ALWAYS: Final = 2**62
_DELIVERIES: Final = """
SELECT outcome, count() AS deliveries, countIf(toUnixTimestamp64Milli(time) >= {since_ms:Int64}) AS lately
FROM deliveries FINAL GROUP BY outcome ORDER BY outcome
SETTINGS final = 0, max_execution_time = 30"""
_LOG: Final = "SELECT value FROM meta FINAL WHERE key = 'log'"
# Hours have the dimensions of GPU-time; of the rest the minutes name component and unit.
_UNPRICED: Final = f"""
SELECT component, gpu_type, instance_type, unit, sum(quantity) AS quantity, uniqExact(job_id) AS jobs, min(job_id) AS example,
       toUnixTimestamp(max(last)) * 1000 AS last_ms
FROM
(
    SELECT 'gpu' AS component, gpu_type, instance_type, 'gpu_milli_ms' AS unit, toInt128(unpriced_gpu_milli_ms) AS quantity, job_id, hour AS last
    FROM job_hours FINAL
    WHERE unpriced_gpu_milli_ms != 0 AND hour >= toDateTime(intDiv({{since_ms:Int64}}, 1000), 'UTC') AND {USERS_JOBS}
    UNION ALL
    SELECT component, '', '', unit, toInt128(quantity), job_id, minute
    FROM job_minutes FINAL PREWHERE minute >= toDateTime(intDiv({{since_ms:Int64}}, 1000), 'UTC')
    WHERE sku = '' AND component != 'gpu' AND quantity != 0 AND {USERS_JOBS}
)
GROUP BY component, gpu_type, instance_type, unit ORDER BY jobs DESC, component, gpu_type, instance_type, unit LIMIT {{limit:UInt64}}
SETTINGS final = 0, max_execution_time = 30"""


class MeterReport:
    """What one worker knows of itself, and what the store knows of all."""

    def __init__(
        self,
        figures: ApiFigures,
        store_reader: StoreReader,
        now_ms: Callable[[], int],
        version: str,
        settings: Mapping[str, Any],
        speed: float = 1,
        docs_url: str = "",
        refused_events: Callable[[], Sequence[Object]] = list,
    ) -> None:
        self._figures = figures
        self._store_reader = store_reader
        self._cache = Cache(now_ms, _TTL_MS)
        self._version = version
        self._settings = settings
        self._speed = speed
        # Events that were refused over HTTP since the start, by reason: these are not dead letters.
        self._refused_events = refused_events
        # The folder of the documentation; '': what mends a fault has a path and no address.
        self._docs_url = docs_url

    async def of(self, status: WorkerStatus, checks: Sequence[Check], audit: LastAudit) -> Object:
        """The report; what the store does not answer is null, with its words in `store_fault`."""
        if self._speed != 1:
            status = _without_ages(status)
        stored, fault = await self._stored()
        wrong = [*meter_faults.faults(status, checks, audit.verdict), *meter_faults.stored_faults(stored)]
        return {
            "version": self._version,
            "python": platform.python_version(),
            "speed": self._speed,
            "ready": all(check.ok for check in checks),
            "wrong": [each._asdict() for each in wrong],
            "docs_url": self._docs_url or None,
            "checks": [{"name": each.name, "ok": each.ok, "detail": each.detail} for each in checks],
            "audit": audit.shown(),
            "canary": _canary(status),
            **_worker(status),
            **stored,
            "refused_events": self._refused_events(),
            "store_fault": fault,
            "settings": dict(self._settings),
        }

    async def _stored(self) -> tuple[Object, str | None]:
        names = ("as_of_ms", "sources", "dead_letters", "unpriced", "deliveries", "deliveries_lately")
        try:
            found = await self._cache.get("stored", self._read)
        except ApiError as fault:
            return dict.fromkeys(names), fault.message
        return found, None

    async def _read(self) -> Object:
        ask = self._store_reader.rows
        as_of_ms = await self._figures.as_of_ms()
        since_ms = max(as_of_ms - RECENT_DAYS * DAY_MS, 0)
        parts: list[Awaitable[Any]] = [
            ask(ACCOUNTS, most=SOURCES_MAX),
            ask(REASONS, most=SOURCES_MAX),
            ask(GROUPS, topic="", reason="", since=0, until=_ALWAYS, places=[], limit=GROUPS_MAX),
            ask(_UNPRICED, since_ms=since_ms, limit=_UNPRICED_MAX),
            ask(_LOG),
            ask(_DELIVERIES, since_ms=since_ms),
        ]
        accounts, reasons, groups, unpriced, log, deliveries = await asyncio.gather(*parts)
        log_name = str(log[0]["value"]) if log else ""
        return {
            "as_of_ms": as_of_ms,
            "sources": listed(accounts, reasons),
            "dead_letters": [_letter(row, log_name, since_ms) for row in groups],
            "unpriced": [_unpriced(row) for row in unpriced],
            "deliveries": {row["outcome"]: row["deliveries"] for row in deliveries},
            "deliveries_lately": {row["outcome"]: row["lately"] for row in deliveries},
        }


def _letter(row: Row, log: str, since_ms: int) -> Object:
    topic, reason = row["topic"], row["reason"]
    return {
        **row,
        "is_recent": ms(row["last"]) >= since_ms,
        "advice": advice_of(str(reason), log),
        "command": f"trainfare dead-letters list --topic {topic} --reason {reason} --each",
    }


def _unpriced(row: Row) -> Object:
    quantity = int(row["quantity"])
    is_gpu = row["component"] == "gpu"
    kind = "its gpu_type" if is_gpu else "its component and the fields of the job"
    mends = f"load a price for {kind}: trainfare prices load FILE; trainfare prices show says what there is"
    return {
        **row,
        "quantity": str(quantity),
        "amount": readable(quantity, str(row["unit"])),
        "mends": mends,
    }


def _canary(status: WorkerStatus) -> Object:
    canary = status.canary
    return {
        "enabled": status.canary_enabled,
        "runs": None if canary is None else canary.runs,
        "wrong": None if canary is None else canary.wrong,
        "late": None if canary is None else canary.late,
        "right_age_ms": None if canary is None else canary.right_age_ms,
        "latency_ms": None if canary is None else canary.latency_ms,
    }


def _without_ages(status: WorkerStatus) -> WorkerStatus:
    """A worker whose log has a time of its own, as the demo's: by the clock of the machine its records have no age."""
    lag = tuple(replace(each, age_ms={}) for each in status.shard_lag)
    return replace(status, watermark_age_ms=None, lag_ms={}, shard_lag=lag)


def _worker(status: WorkerStatus) -> Object:
    """What this worker holds and how far it is."""
    return {
        "watermark_age_ms": status.watermark_age_ms,
        "checkpoint_age_ms": status.checkpoint_age_ms,
        "snapshot_age_ms": status.snapshot_age_ms,
        "price_age_ms": status.price_age_ms,
        "backlog_bytes": status.backlog_bytes,
        "max_backlog_bytes": status.max_backlog_bytes,
        "reading_paused": status.reading_paused,
        "clock_ahead_ms": status.clock_ahead_ms,
        "ledger_rules_lag_ms": status.ledger_rules_lag_ms,
        "shards_held": status.shards_held,
        "shards_restoring": status.shards_restoring,
        "shards_unowned": status.shards_unowned,
        "notifier_pending": status.notifier_pending,
        "records": dict(status.records),
        "late_gpu_samples": status.gpu_samples_late,
        "topics": [
            {
                "topic": topic,
                "records": records,
                "age_ms": status.lag_ms.get(topic, 0),
                "in_transaction": status.transaction_records.get(topic, 0),
            }
            for topic, records in sorted(status.lag_records.items())
        ],
        "partitions": [
            {
                "shard": each.shard,
                "records": sum(each.records.values()),
                "age_ms": max(each.age_ms.values(), default=0),
                "idle_ms": each.idle_ms,
            }
            for each in sorted(status.shard_lag, key=lambda each: each.shard)
        ],
    }
