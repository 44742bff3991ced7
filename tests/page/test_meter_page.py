"""The page Meter: the verdict with what mends each thing, an unknown store, no answer, hostile names, every width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202egnp"
SHOWN = r"<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}gnp"


def report(**changes: Any) -> dict[str, Any]:
    """What a sound meter says."""
    book = {"topic": "gpu", "partition": 0, "records_in": 1_234, "applied": 1_230, "unattributed": 1, "duplicate": 2, "too_late": 0, "dead_lettered": 1, "balance": 0}  # fmt: skip
    finding = {"check": "ledger_costs", "subject": "all", "expected": "no difference", "found": "none", "ok": True, "detail": "12 windows agree"}  # fmt: skip
    return {
        "version": "0.1.0", "python": "3.11.7", "ready": True, "wrong": [], "as_of_ms": NOW_MS, "store_fault": None,
        "checks": [{"name": "kafka", "ok": True, "detail": "Kafka at kafka-1:9092"}],
        "audit": {"age_ms": 42_000, "ok": True, "findings": [finding], "books": [book]},
        "canary": {"enabled": True, "runs": 9, "wrong": 0, "late": 0, "right_age_ms": 31_000, "latency_ms": 900},
        "watermark_age_ms": 1_200, "checkpoint_age_ms": 800, "snapshot_age_ms": 60_000, "price_age_ms": 9_000_000,
        "backlog_bytes": 2_097_152, "max_backlog_bytes": 268_435_456, "reading_paused": False, "clock_ahead_ms": 20,
        "ledger_rules_lag_ms": 0, "shards_held": 8, "shards_restoring": 0, "shards_unowned": 0, "notifier_pending": 0,
        "records": {"applied": 1_230, "duplicate": 2}, "late_gpu_samples": 0,
        "topics": [{"topic": "gpu", "records": 12, "age_ms": 1_500, "in_transaction": 0}],
        "partitions": [{"shard": shard, "records": shard, "age_ms": 1_500, "idle_ms": 0} for shard in range(8)],
        "sources": [], "refused_events": [], "dead_letters": [], "unpriced": [], "deliveries": {"delivered": 3},
        "settings": {"meter.job_horizon_ms": 86_400_000, "actions.mode": "dry_run"},
    } | changes  # fmt: skip


def broken(name: str = "slurm") -> dict[str, Any]:
    entry = {"entry_class": "not_understood", "reason": "unknown_instance", "entries": 7, "example": name, "standing": True, "says": "name its GPUs in instance_gpus"}  # fmt: skip
    free = {**entry, "entry_class": "free", "reason": "no_gpu", "says": "it holds no GPU; include_cpu_only meters it"}  # fmt: skip
    letter = {"topic": "jobs", "reason": "unknown_type", "records": 3, "stored": 3, "replayed": 0, "first": NOW_MS - 9_000, "last": NOW_MS, "example": f"field `type`: {name}", "advice": "the collector is at fault: mend it", "command": "trainfare dead-letters list --topic jobs --reason unknown_type --each"}  # fmt: skip
    unpriced = {"component": "gpu", "gpu_type": name, "instance_type": "", "unit": "gpu_milli_ms", "amount": "0.033 GPU-h", "jobs": 1, "example": name, "mends": "load a price for its gpu_type: trainfare prices load FILE"}  # fmt: skip
    wrong = {"what": "check kafka", "said": f"Kafka at {name} does not answer", "mends": "see that Kafka runs", "docs": "docs/trouble.md#kafka-unavailable"}  # fmt: skip
    finding = {"check": "books", "subject": "gpu/0", "expected": "2", "found": "1", "ok": False, "detail": f"one of {name} is lost"}  # fmt: skip
    return report(
        ready=False,
        wrong=[wrong],
        checks=[{"name": "kafka", "ok": False, "detail": f"Kafka at {name} does not answer"}],
        audit={"age_ms": 42_000, "ok": False, "findings": [finding], "books": []},
        sources=[{"name": name, "polled": NOW_MS, "polls": 4, "read": 20, "metered": 12, "free": 1, "not_understood": 7, "causes": 1, "entries": [entry, free]}],
        dead_letters=[letter],
        refused_events=[{"reason": "missing_field", "events": 1_204, "example": f"field `id`: {name}"}],
        unpriced=[unpriced],
    )  # fmt: skip


def test_a_sound_meter_says_so(board: Board, script: Script) -> None:
    script.meter = report()
    page = board("/#/meter").page
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("✓ Nothing is wrong that the meter knows of")
    for words in ("Newest event1 s ago", "✓ balances", "right 31 s ago", "8 shards", "3 delivered"):
        expect(page.locator(".meter-tiles")).to_contain_text(words)
    for words in (
        "No source has said what it read",
        "✓ No record of the log was refused",
        "has a price",
        "86,400,000 (1 d)",
    ):
        expect(page.locator(".meter")).to_contain_text(words)
    page.locator("summary", has_text="8 partitions of this worker").focus()
    page.keyboard.press("Enter")
    shards = page.get_by_role("table", name="Lag by partition")
    expect(shards.get_by_role("row").nth(1)).to_contain_text("7")
    script.meter = report(watermark_age_ms=90_000)
    expect(page.locator(".meter-tiles")).to_contain_text("Newest event2 min ago", timeout=9_000)
    expect(shards).to_be_visible()
    expect(page.locator("summary", has_text="8 partitions of this worker")).to_be_focused()


def test_each_thing_that_is_wrong_stands_first_with_what_mends_it(board: Board, script: Script) -> None:
    script.meter = broken()
    page = board("/#/meter").page
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("✗ 1 thing to mend")
    expect(verdict).to_contain_text("Kafka at slurm does not answer")
    expect(verdict).to_contain_text("What mends it: see that Kafka runs")
    expect(verdict).to_contain_text("It is not ready")
    expect(page.locator(".meter")).to_contain_text("✗ not balanced")
    expect(page.locator(".meter")).to_contain_text("What mends it: name its GPUs in instance_gpus")
    expect(page.locator(".meter")).to_contain_text("What mends it: the collector is at fault: mend it")
    expect(page.locator(".meter")).to_contain_text("0.033 GPU-h")
    letters = page.get_by_role("region", name="Dead letters")
    expect(letters).to_contain_text("1,204: missing_field")
    expect(letters).to_contain_text("Newest: field `id`: slurm")
    link = page.get_by_role("link", name="Open the newest in Query")
    link.click()
    expect(page.get_by_label("SQL, one statement")).to_have_value(
        "SELECT topic, partition, offset, time, reason, detail\nFROM dead_letters\nORDER BY time DESC\nLIMIT 100"
    )
    assert script.queries == []


def test_each_fault_links_to_the_page_that_mends_it(board: Board, script: Script) -> None:
    script.meter = broken() | {"docs_url": "https://docs.example.com/fare"}
    page = board("/#/meter", width=360).page
    link = page.get_by_role("link", name="How to mend it: docs/trouble.md#kafka-unavailable")
    expect(link).to_have_attribute("href", "https://docs.example.com/fare/trouble.md#kafka-unavailable")
    expect(link).to_have_attribute("rel", "noreferrer")
    link.focus()
    # Figures come each 5 s: what has the focus keeps it.
    script.meter = {**script.meter, "watermark_age_ms": 90_000}
    expect(page.locator(".meter-tiles")).to_contain_text("Newest event2 min ago", timeout=9_000)
    expect(link).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    script.meter = broken() | {"docs_url": None, "store_fault": "ClickHouse does not answer"}
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("Set alerts.docs_url to have these pages as links.", timeout=9_000)
    expect(verdict).to_contain_text("docs/trouble.md#store-unavailable")
    expect(verdict.get_by_role("link")).to_have_count(0)


def test_what_is_not_known_is_said(board: Board, script: Script) -> None:
    nothing = dict.fromkeys(("as_of_ms", "sources", "dead_letters", "unpriced", "deliveries"))
    script.meter = report(**nothing, store_fault="ClickHouse at ch:8123 does not answer", audit=None, topics=[], partitions=[])  # fmt: skip
    page = board("/#/meter").page
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("The store does not answer")
    for words in (
        "Unknown: ClickHouse at ch:8123",
        "has not audited its books yet",
        "No partition is metered here yet",
    ):
        expect(page.locator(".meter")).to_contain_text(words)


def test_no_answer_is_told_and_the_last_figures_stay(board: Board, script: Script) -> None:
    watched = board("/#/meter")
    watched.provoked = ("503",)
    page = watched.page
    expect(page.get_by_role("alert").first).to_contain_text("the worker is starting")
    script.meter = report()
    expect(page.locator(".meter-tiles")).to_be_visible(timeout=9_000)
    expect(page.locator(".meter > .notice")).to_be_hidden()
    script.meter = None
    expect(page.locator(".meter")).to_contain_text("The figures below are older.", timeout=9_000)
    expect(page.locator(".meter-tiles")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_hostile_names_are_text_at_every_width(board: Board, script: Script, width: int, scheme: str) -> None:
    script.meter = broken(HOSTILE + "x" * 256)
    page = board("/#/meter", width=width, scheme=scheme).page
    expect(page.locator(".meter")).to_contain_text(SHOWN)
    assert page.locator(".meter img").count() == 0
    assert "\u202e" not in page.locator(".meter").inner_text()
    for summary in page.locator(".meter summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
