"""The simulator finds out each way to break the meter, within a stated number of seeds."""

from __future__ import annotations

import pytest

from tests.simulator import controls
from tests.simulator.controls import Break
from tests.simulator.faults import LATE, Allowed
from tests.simulator.run import run_seed
from tests.simulator.seeds import SEEDS

DEATHS = ("kill", "kill at", "stop", "join")
ORDERLY = Allowed(kinds=DEATHS, repeated=False, dropped=False, stale=False, pressure=False)
COMMITTED = Allowed(kinds=DEATHS, repeated=False, dropped=False, stale=False, from_committed=True)


def stepping_over_and_commit_first(patch: pytest.MonkeyPatch) -> None:
    controls.holes_stepped_over(patch)
    controls.commit_before_snapshot(patch)


#: What is broken, under which faults, and within how many seeds it must show.
BROKEN: dict[str, tuple[Break, Allowed, range]] = {
    "start at the committed offset, guard off": (
        controls.guard_off, Allowed(repeated=False, dropped=False, from_committed=True), range(20),
    ),
    "holes stepped over": (controls.holes_stepped_over, Allowed(), range(40)),
    # What is left of it after the other lines of defence shows in one seed of a hundred: among these is one.
    "versions without owner": (controls.versions_without_owner, LATE, range(130, 150)),
    "no read-back": (controls.no_read_back, Allowed(), range(60)),
    "hours forgotten": (controls.hours_forgotten, Allowed(), range(40)),
    "hours kept under old price fields": (controls.hours_kept_under_old_fields, Allowed(), range(60)),
    "hours without late samples": (controls.hours_without_late_samples, Allowed(), range(40)),
    "snapshot before the rows": (controls.snapshot_before_rows, Allowed(), range(60)),
    "ticks by the wall clock": (controls.ticks_by_the_wall_clock, Allowed(), range(20)),
    "budgets: all but the first alert of a look are lost": (controls.budgets_lost, Allowed(), range(60)),
    "budgets: told twice, under other ids": (controls.alerts_under_ids_of_the_look, Allowed(), range(20)),
    "budgets: shards not waited for": (controls.shards_not_waited_for, Allowed(), range(20)),
    "budgets: shards with unread records not waited for": (
        controls.unread_shards_not_waited_for, Allowed(), range(180, 230),
    ),
    "budgets: a job that is submitted again is another run": (
        controls.runs_told_apart_by_job, Allowed(), range(20),
    ),
    "budgets: of a run its last job alone is read": (
        controls.runs_read_by_their_last_job, Allowed(), range(70, 120),
    ),
    "hours: judged before all shards have stored them": (controls.hours_not_waited_for, Allowed(), range(30)),
    "hours: those that were missed are lost": (controls.hours_skipped, Allowed(), range(10)),
    "receipts: stored and not sent": (controls.receipts_not_sent, Allowed(), range(20)),
    "commit before the snapshot, start at the committed offset": (stepping_over_and_commit_first, COMMITTED, range(60)),
}  # fmt: skip
#: What each of these would break alone is held by another line of defence.
HELD: dict[str, tuple[Break, Allowed]] = {
    "guard off, start at our own next": (controls.guard_off, ORDERLY),
    "start at the committed offset": (lambda patch: None, COMMITTED),
    "commit before the snapshot, start at our own next": (controls.commit_before_snapshot, Allowed()),
}


def first_failure(seeds: range, allowed: Allowed) -> int | None:
    """How many seeds it took."""
    return next((count for count, seed in enumerate(seeds, 1) if run_seed(seed, allowed).differences), None)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_meter_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, allowed, seeds = BROKEN[name]
    broken(monkeypatch)
    assert first_failure(seeds, allowed) is not None, f"{name}: not found out in {seeds}"


@pytest.mark.parametrize("name", HELD)
def test_one_line_of_defence_is_enough(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, allowed = HELD[name]
    broken(monkeypatch)
    for seed in range(min(max(SEEDS // 8, 6), 100)):
        found = run_seed(seed, allowed).differences
        assert not found, f"{name}: seed {seed}: {found[:5]}"
