"""What owners must have been sent of ends and weeks when a run is over, and what they were."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from schemas.receipt_table import RECEIPTS
from schemas.tables import JOBS
from tests.oracle.model import HOUR_MS, Tables
from tests.oracle.receipts import Hour, figures
from tests.simulator.mail import Mailbox
from tests.simulator.store import Shelf
from tests.simulator.world import EPOCH_MS

_OWNERS = ("amy", "blue", "red")
_PER_JOB = 3
_NEXT_ATTEMPT_MS = 600_000
_DAY_MS = 24 * HOUR_MS
_WEEK_END_MS = -(-EPOCH_MS // _DAY_MS) * _DAY_MS

Sent = dict[str, Any]


def receipt_differences(
    shelf: Shelf, tables: Tables, mailbox: Mailbox, judged_ms: int, *, is_on_time: bool
) -> Iterator[str]:
    """One sentence per fault; `tables`: the oracle's, as of the last judged minute."""
    ids = {message.data.get("receipt_id") for message in mailbox.got}
    stored = {row["receipt_id"]: row for row in shelf.rows(RECEIPTS)}
    yield from (
        f"receipt {key} of {row['subject_name']} was stored and not sent"
        for key, row in stored.items()
        if key not in ids
    )
    sent: dict[tuple[str, str, int], dict[str, Sent]] = {}
    for message in mailbox.got:
        if message.kind in ("job.ended", "digest.weekly"):
            data = message.data
            who = (
                data.get("job_id")
                or f"{data['subject']['kind']} {data['subject']['name']} to {data['owner']}"
            )
            when = data["ended_ms"] if "job_id" in data else data["until_ms"]
            sent.setdefault((message.kind, who, when), {})[message.id] = data
    for what, found in sent.items():
        if len(found) > 1:
            yield f"{what} was sent under {len(found)} ids"
    yield from _ends(shelf, sent, judged_ms, is_known=mailbox.guessed_ms < judged_ms)
    if is_on_time and mailbox.guessed_ms < judged_ms:
        yield from _figures(tables, sent)
        yield from _weeks(tables, sent, judged_ms)


def _ends(
    shelf: Shelf, sent: dict[tuple[str, str, int], dict[str, Sent]], judged_ms: int, *, is_known: bool
) -> Iterator[str]:
    """Each end that stands was sent, unless its job had so many receipts."""
    for job in shelf.rows(JOBS):
        if job["ended"] is None or job["owner"] not in _OWNERS:
            continue
        ended_ms, job_id = round(job["ended"].timestamp() * 1000), job["job_id"]
        receipts = sum(kind == "job.ended" and who == job_id for kind, who, _ in sent)
        if receipts > _PER_JOB:
            yield f"{job_id} has {receipts} receipts"
        wait_ms = {"completed": 0, "cancelled": 0, "failed": _NEXT_ATTEMPT_MS, "preempted": _NEXT_ATTEMPT_MS}
        is_due = job["state"] in wait_ms and EPOCH_MS <= ended_ms <= judged_ms - wait_ms[job["state"]]
        if is_known and is_due and receipts < _PER_JOB and ("job.ended", job_id, ended_ms) not in sent:
            yield f"{job_id} ended at {ended_ms}, its owner has no receipt"


def _figures(tables: Tables, sent: dict[tuple[str, str, int], dict[str, Sent]]) -> Iterator[str]:
    """What is said of jobs whose events come in time is the oracle's."""
    for (kind, job_id, _), found in sent.items():
        if kind != "job.ended" or tables.jobs[job_id].owner != "amy":
            continue
        hours = [
            Hour(
                sum(row.cost_nano),
                row.lost_cost_nano,
                row.wall_clock_ms,
                row.sampled_gpu_ms,
                row.productive_gpu_ms,
            )
            for key, row in tables.hours.items()
            if key.job_id == job_id
        ]
        states = [row.state for (name, _), row in tables.attempts.items() if name == job_id]
        want = figures(hours, states, (), ())
        for data in found.values():
            got = {name: Decimal(data[name]) * 10**9 for name in ("cost_usd", "usd_per_hour", "lost_usd")}
            got |= {name: data[name] for name in ("preemptions", "failures", "productive_ratio")}
            if got != {name: want[name] for name in got}:
                yield f"receipt of {job_id}: says {got}, want {want}"


def _weeks(
    tables: Tables, sent: dict[tuple[str, str, int], dict[str, Sent]], judged_ms: int
) -> Iterator[str]:
    """The digests of who spends in time are the oracle's."""
    for field, name in (("owner", "amy"), ("team", "amber")):
        cost = sum(
            sum(row.cost_nano)
            for key, row in tables.hours.items()
            if getattr(tables.jobs[key.job_id], field) == name and key.hour * HOUR_MS < _WEEK_END_MS
        )
        found = sent.get(("digest.weekly", f"{field} {name} to amy", _WEEK_END_MS), {})
        got = {Decimal(data["cost_usd"]) * 10**9 for data in found.values()}
        if got != ({Decimal(cost)} if cost and judged_ms >= _WEEK_END_MS else set()):
            yield f"digest of {field} {name}: says {got}, want {cost}"
