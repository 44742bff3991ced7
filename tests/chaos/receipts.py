"""Receipts and digests in a chaos run: who asked for them, and what must have been sent.

What a receipt says is not compared, as prices come late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

from schemas.receipt_table import RECEIPTS
from schemas.tables import JOBS
from sinks.clickhouse import ClickHouseStore
from streams.notify.webhooks.receiver import Received
from tests.oracle.model import HOUR_MS, Json, Tables

OWNERS: Final = ("ann", "bob")
RECORDS: Final[tuple[Json, ...]] = (
    *({"name": owner, "on": True} for owner in OWNERS),
    {"name": "red/ann", "team": "red", "owner": "ann", "on": True},
)
_NEXT_ATTEMPT_MS: Final = 600_000
_WAIT_MS: Final = {"completed": 0, "cancelled": 0, "failed": _NEXT_ATTEMPT_MS, "preempted": _NEXT_ATTEMPT_MS}

Sent = dict[tuple[str, str, int], dict[str, dict[str, Any]]]


def receipt_differences(
    store: ClickHouseStore, tables: Tables, received: Iterable[Received], from_ms: int, week_end_ms: int
) -> Iterator[str]:
    """One sentence per fault; `tables`: the oracle's; `from_ms`: what ended before has no receipt, as a day had passed."""
    ids, sent = set[str](), Sent()
    for each in received:
        if each.type in ("job.ended", "digest.weekly"):
            ids.add(each.data["receipt_id"])
            sent.setdefault(_what(each), {})[each.webhook_id] = each.data
    for row in store.select(RECEIPTS).to_pylist():
        if row["receipt_id"] not in ids:
            yield f"receipt of {row['subject_name']} was stored and not sent"
    for what, found in sent.items():
        if len(found) > 1:
            yield f"{what} was sent under {len(found)} ids"
    yield from _ends(store, {what for what in sent if what[0] == "job.ended"}, from_ms, week_end_ms)
    yield from _digests(tables, sent, week_end_ms)


def _what(message: Received) -> tuple[str, str, int]:
    data = message.data
    if message.type == "job.ended":
        return message.type, data["job_id"], data["ended_ms"]
    subject = data["subject"]
    return message.type, f"{subject['kind']} {subject['name']} to {data['owner']}", data["until_ms"]


def _ends(
    store: ClickHouseStore, sent: set[tuple[str, str, int]], from_ms: int, until_ms: int
) -> Iterator[str]:
    """The ends that stand; those of which a next attempt could still come by `until_ms` may have one."""
    due, may = set[tuple[str, str, int]](), set[tuple[str, str, int]]()
    for job in store.select(JOBS).to_pylist():
        if job["ended"] is None or job["owner"] not in OWNERS or job["state"] not in _WAIT_MS:
            continue
        ended_ms = round(job["ended"].timestamp() * 1000)
        if ended_ms >= from_ms:
            may.add(what := ("job.ended", job["job_id"], ended_ms))
            due |= {what} if ended_ms + _WAIT_MS[job["state"]] <= until_ms else set()
    yield from (f"{name} ended at {ended_ms}, its owner has no receipt" for _, name, ended_ms in due - sent)
    yield from (f"{name} has a receipt of {ended_ms}, want none" for _, name, ended_ms in sent - may)


def _digests(tables: Tables, sent: Sent, week_end_ms: int) -> Iterator[str]:
    for field, name, owner in (("owner", "ann", "ann"), ("owner", "bob", "bob"), ("team", "red", "ann")):
        cost = sum(
            sum(row.cost_nano)
            for key, row in tables.hours.items()
            if getattr(tables.jobs[key.job_id], field) == name and key.hour * HOUR_MS < week_end_ms
        )
        found = sent.get(("digest.weekly", f"{field} {name} to {owner}", week_end_ms), {})
        got = {int(Decimal(data["cost_usd"]) * 10**9) for data in found.values()}
        if got != ({cost} if cost else set()):
            yield f"digest of {field} {name}: says {got}, want {cost}"
