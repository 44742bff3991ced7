"""Receipts as they are stored, for tests of the notifier."""

from __future__ import annotations

from typing import Any

from sinks.rows import Rows
from streams.costs.drivers import CostCell
from streams.notify.links import NO_LINKS, Links
from streams.notify.notice import Notice, notice_of
from streams.worker.receipts.digest import ChangedCell, DigestSubject, SmallAlerts, WeekFigures, digest_of
from streams.worker.receipts.receipt import Cheaper, EndedJob, Figures, Receipt, UsualCost, receipt_of
from streams.worker.receipts.receipt_rows import receipt_rows
from tests.notify.scripted_sender import NOW_MS

USUAL: dict[str, Any] = {
    "job_id": "run-8",
    "owner": "ada",
    "team": "vision",
    "project": "p",
    "experiment": "lr",
    "state": "completed",
    "attempts": 3,
    "started_ms": NOW_MS - 22_320_000,
    "ended_ms": NOW_MS,
    "wall_clock_ms": 22_320_000,
    "gpus": "8",
    "gpu_type": "H100",
    "purchase": "on_demand",
}
FIGURES = Figures(
    cost_nano=412_070_000_000,
    lost_nano=28_844_900_000,
    sampled_gpu_ms=100,
    productive_gpu_ms=81,
    preemptions=2,
    usual=UsualCost({"team": "vision"}, 6, 367_919_642_857),
)
CHEAPER = FIGURES._replace(cheaper=Cheaper("spot", 300 * 10**9), expected_nano_per_hour=66_462_903_226)


def a_receipt(figures: Figures = FIGURES, links: Links = NO_LINKS, **other: Any) -> Receipt:
    return receipt_of(EndedJob(**(USUAL | other)), figures, links)


def a_notice(figures: Figures = FIGURES, **other: Any) -> Notice:
    found = a_receipt(figures, **other)
    return notice_of(found.message, found.owner)


def a_digest_notice(name: str) -> Notice:
    """A digest of a team, a job and an owner of the same name."""
    changed = ChangedCell(name, "gpu", CostCell(2 * 10**9, 8), CostCell(10**9, 4))
    figures = WeekFigures(
        10**9,
        2 * 10**9,
        7,
        10**9,
        100,
        50,
        1,
        (changed,),
        ((name, 10**9),),
        (SmallAlerts("idle_gpus", 2, (name,)),),
    )
    week_ms = 7 * 86_400_000
    begin_ms = NOW_MS // week_ms * week_ms - 3 * 86_400_000
    found = digest_of(DigestSubject("team", name, name, begin_ms, begin_ms + week_ms), figures)
    return notice_of(found.message, found.owner)


def keep(store: Rows, *receipts: Receipt) -> None:
    """Store receipts without offering them."""
    _, rows, token = receipt_rows(receipts, 1)
    store.insert("receipts", rows, token)
