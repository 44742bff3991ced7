"""Jobs that ended, as shards store them, and what their owners were sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from schemas.receipt_table import RECEIPTS
from schemas.tables import ATTEMPTS, BURN_RATES, JOB_HOURS, JOB_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from tests.oracle.receipts import Hour
from tests.schemas.messages.test_json_schema import check
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at

ON = ("receipt", "ada", {"on": True})


def usd(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


def ended(
    ledger: Ledger,
    job_id: str,
    hours: Sequence[Hour] = (Hour(10**9),),
    *,
    ended_ms: int = T0 + HOUR_MS,
    states: Sequence[str] = ("completed",),
    expected: Sequence[int] = (),
    **fields: Any,
) -> None:
    """Store a job that ended; each of its hours is an hour of the clock, the last one the hour of its end."""
    with ledger.together():
        _ended(ledger, job_id, hours, ended_ms=ended_ms, states=states, expected=expected, **fields)


def _ended(
    ledger: Ledger, job_id: str, hours: Sequence[Hour], *, ended_ms: int, states: Sequence[str], expected: Sequence[int],
    **fields: Any,
) -> None:  # fmt: skip
    state, wall_ms = states[-1], sum(hour.wall_ms for hour in hours)
    usual = {
        "owner": "ada",
        "team": "vision",
        "gpu_type": "H100",
        "gpu_count": Decimal(8),
        "purchase": "on_demand",
    }
    row = {**usual, "state": state, "attempts": len(states), "wall_clock_ms": wall_ms, **fields}
    first_ms = (ended_ms - 1) // HOUR_MS * HOUR_MS - (len(hours) - 1) * HOUR_MS
    ledger.job(job_id, started_ms=first_ms, ended=at(ended_ms), **row)
    prices = {name: row[name] for name in ("gpu_type", "purchase")}
    for number, each in enumerate(states, 1):
        ledger._put(ATTEMPTS, {"job_id": job_id, "attempt": number, "state": each, **prices})
    for number, hour in enumerate(hours):
        begin_ms = first_ms + number * HOUR_MS
        gpu = 8_000 * hour.wall_ms
        measures = {
            "gpu_milli_ms": gpu,
            "wall_clock_ms": hour.wall_ms,
            "sampled_gpu_ms": hour.sampled_ms,
            "productive_gpu_ms": hour.productive_ms,
        }
        paid = {"gpu_cost_usd": usd(hour.cost), "lost_cost_usd": usd(hour.lost)}
        ledger._put(JOB_HOURS, {"job_id": job_id, "hour": at(begin_ms), **prices, **measures, **paid})
        cost = {"quantity": gpu, "cost_usd": usd(hour.cost), "sku": "h100"}
        ledger._put(JOB_MINUTES, {"job_id": job_id, "minute": at(begin_ms), **cost})
    for minute, rate in enumerate(expected):
        row = {
            "job_id": job_id,
            "time": at(first_ms + minute * MINUTE_MS),
            "expected_usd_per_hour": usd(rate),
        }
        ledger._put(BURN_RATES, row)


async def look(life: Life, ledger: Ledger, now_ms: int, *more_ms: int) -> None:
    """All shards have stored until now; the worker looks."""
    life.clock.advance(max(now_ms - life.clock.now_ms(), 0))
    ledger.books(now_ms, *more_ms)
    await life.step()


def living(store: ClickHouseStore, *controls: tuple[str, str, dict[str, Any]], **more: Any) -> Life:
    return Life(store, ManualClock(T0), *(controls or (ON,)), **more)


def told(life: Life) -> list[dict[str, Any]]:
    """The data of each message; each fits its schema."""
    return [check(json.dumps(sent.body).encode())["data"] for sent in life.office.sender.sent]


def ids(life: Life) -> list[str]:
    return [sent.headers["webhook-id"] for sent in life.office.sender.sent]


def stored(store: ClickHouseStore) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.select(RECEIPTS).to_pylist()
    return sorted(found, key=lambda each: (each["ended"], each["receipt_id"]))
