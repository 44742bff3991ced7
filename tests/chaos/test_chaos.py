"""Workers on a real Kafka are killed, stopped, joined, frozen and misled: the tables are the oracle's, to the nano-dollar.

And without a line of defence they are not: each negative run shows that the comparison would have seen it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.across_jobs import LEAST
from tests.chaos.files import ChaosOfFiles, audited, unseen
from tests.chaos.plan import Plan, Report
from tests.chaos.run import Chaos

pytestmark = pytest.mark.kafka

# Small, and rough where it matters: owners change, and what the group has committed is behind what is stored.
SMALL = Plan(
    jobs=16, seconds=500, cycles=2, per_s=1_500, partitions=3, kinds=("kill", "kill_all"), patience_s=6
)


def run(plan: Plan, directory: Path, *patches: str) -> Report:
    if patches:
        plan = Plan(**{**vars(plan), "module": ("tests.chaos.patched", ",".join(patches))})
    report = Chaos(plan, directory, print).go()
    print(report)  # noqa: T201 - the figures of the run
    return report


def assert_exact(report: Report) -> None:
    assert report.owned_after_s is not None, report
    assert report.goes_on_after_s is not None, report
    assert report.drained, report
    assert not report.exits, report
    assert not report.differences, report


@pytest.mark.timeout(900)
def test_every_kind_of_fault_once_and_the_tables_are_exact(tmp_path: Path) -> None:
    report = run(Plan(jobs=44, seconds=800, cycles=8, per_s=1_700, rest_s=(0.5, 3.0)), tmp_path)
    assert_exact(report)
    assert report.events > 30_000


@pytest.mark.long
def test_a_fault_of_the_files_is_seen_by_the_audit_and_by_nothing_else(tmp_path: Path) -> None:
    chaos = ChaosOfFiles(replace(SMALL, cycles=4, patience_s=180), tmp_path, print)
    assert_exact(chaos.go())
    assert audited(tmp_path / "store") == (0, set())
    assert unseen(tmp_path / "store", chaos.stale) == {}


@pytest.mark.long
@pytest.mark.parametrize(
    ("patches", "wrong"),
    [
        # Records that were stored and not committed are metered again, those that were committed and not restored never.
        (("start_committed", "guard_off", "lose_commits", "stale_snapshots"), {"books"}),
        (("lose_batches", "step_over_holes"), {"books", "usage"}),
    ],
    ids=["start at the committed offset, guard off", "holes stepped over"],
)
def test_without_its_defences_the_meter_is_wrong_and_the_comparison_says_so(
    patches: tuple[str, ...], wrong: set[str], tmp_path: Path
) -> None:
    """Looked at soon, so that open jobs may lack their last seconds; books and usage know no such excuse.

    When a worker dies is up to the machine, so that a run may happen to lose nothing: one of three must.
    """
    differs: list[set[str]] = []
    for seed in (1, 2, 3):
        directory = tmp_path / str(seed)
        directory.mkdir()
        differs.append(run(replace(SMALL, seed=seed), directory, *patches).parts_that_differ)
        if differs[-1] >= wrong:
            return
    pytest.fail(f"not found out: {differs}, want {wrong}")


@pytest.mark.long
@pytest.mark.parametrize(
    "patches",
    [
        ("guard_off", "lose_commits", "stale_snapshots"),
        ("lose_batches", "lose_commits", "stale_snapshots"),
    ],
    ids=",".join,
)
def test_one_line_of_defence_is_enough(patches: tuple[str, ...], tmp_path: Path) -> None:
    """Reading from our own `next` alone; the guard that asks again for what was lost."""
    loses = 40.0 if "lose_batches" in patches else None
    plan = Plan(jobs=50, seconds=700, cycles=7, per_s=1_500, restart_after_s=loses)
    assert_exact(run(plan, tmp_path, *patches))


# Budgets, rules across jobs and receipts, until after an hour, a day and a week have ended.
TOLD = Plan(jobs=16, seconds=400, cycles=5, per_s=1_500, patience_s=300, has_budgets=True)


def assert_told(report: Report, *, of: AbstractSet[str] = LEAST) -> None:
    """Of each there was something to tell."""
    assert not of - report.told.keys(), report


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_rules_across_jobs_and_receipts_are_told_once_whatever_befalls_the_workers(tmp_path: Path) -> None:
    report = run(TOLD, tmp_path)
    assert_exact(report)
    assert_told(report)


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_messages_that_nobody_sends_are_missed(tmp_path: Path) -> None:
    report = run(replace(TOLD, patience_s=60), tmp_path, "lose_messages")
    assert any("was not sent" in words for words in report.differences), report
    assert any("has no receipt" in words or "stored and not sent" in words for words in report.differences)


@pytest.mark.long
@pytest.mark.timeout(2_700)
def test_a_million_events_and_thirty_faults(tmp_path: Path) -> None:
    plan = replace(TOLD, jobs=310, seconds=3_200, cycles=30, per_s=4_500, lead_s=900)
    report = run(plan, tmp_path)
    assert_exact(report)
    # The hour ends a quarter of an hour after the last event: by then `silent_job` fires for the jobs without samples.
    assert_told(report, of=LEAST - {"unsampled_gpus"})
    assert report.events >= 1_000_000
    assert len(report.cycles) >= 25
