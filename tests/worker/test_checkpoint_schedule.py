"""The pace of checkpoints: steady, quicker where much is read, slower far behind, never in a hurry to catch up."""

from __future__ import annotations

from streams.worker.storing.checkpoint_schedule import (
    BUSY_BYTES_PER_S,
    FLOOD_BYTES_PER_S,
    CheckpointSchedule,
)

EVERY_MS = 1_200
BUSY_MS = 1_000
FLOOD_MS = 2_000


def test_checkpoints_keep_to_their_grid_however_long_each_takes() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    assert pace.plan(0) == EVERY_MS
    pace.begins(1_207, 0)  # woken late

    assert pace.plan(1_400) == 1_000, "2,400 is next, not 2,607"


def test_half_of_an_interval_is_left_for_others_where_storing_takes_long() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, 0)

    assert pace.plan(5_000) == EVERY_MS // 2


def test_the_time_in_which_a_checkpoint_is_stored_is_left_for_others_but_the_store_gets_an_eighth() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, 0)
    assert pace.plan(5_000, 400) == EVERY_MS // 2 - 400
    assert pace.plan(9_000, 3_500) == EVERY_MS // 8
    assert pace.plan(9_010, 3_500) == EVERY_MS + EVERY_MS // 8 - 10, "the grid holds where nothing took long"


def test_something_urgent_moves_the_grid() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(300, 0)

    assert pace.plan(350) == 1_150


def test_where_much_is_read_the_pace_is_quick_until_it_is_not() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, BUSY_BYTES_PER_S * 2)
    assert pace.plan(1_200) == BUSY_MS
    assert pace.left_ms(1_300) == (900, BUSY_MS)

    pace.begins(2_200, BUSY_BYTES_PER_S)
    assert pace.plan(2_200) == BUSY_MS

    pace.begins(3_200, BUSY_BYTES_PER_S - 1)
    assert pace.plan(3_200) == EVERY_MS


def test_a_log_that_was_waiting_is_stored_at_a_slower_pace_until_its_end_is_near() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, FLOOD_BYTES_PER_S * 2, behind=True)
    assert pace.plan(1_200) == FLOOD_MS
    assert pace.is_slow

    pace.begins(1_200 + FLOOD_MS, FLOOD_BYTES_PER_S * 3, behind=False)  # its end is read
    assert pace.plan(1_200 + FLOOD_MS) == BUSY_MS
    assert not pace.is_slow


def test_a_log_that_begins_to_come_is_not_stored_before_its_pace() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    assert pace.can_wait(1_200, FLOOD_BYTES_PER_S * 2, behind=True)
    assert pace.is_slow
    assert pace.plan(1_200) == 1_000, "half an interval; two seconds after the last one is sooner"
    assert not pace.can_wait(2_200, FLOOD_BYTES_PER_S * 9, behind=True)


def test_a_log_is_read_from_the_start_of_reading_on_not_of_the_worker() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.start(9_000)
    assert pace.plan(9_000) == EVERY_MS
    assert pace.can_wait(10_200, FLOOD_BYTES_PER_S * 2, behind=True)


def test_nothing_else_waits() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    assert not pace.can_wait(1_200, FLOOD_BYTES_PER_S * 2, behind=False)
    assert not pace.can_wait(1_200, FLOOD_BYTES_PER_S, behind=True)
    assert not pace.is_slow
    assert pace.left_ms(1_200) == (0, EVERY_MS)


def test_a_fleet_that_says_much_is_not_stored_at_a_slower_pace_because_it_is_a_moment_behind() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, FLOOD_BYTES_PER_S, behind=True)  # in 1.2 s

    assert pace.plan(1_200) == BUSY_MS


def test_much_is_what_comes_in_a_second_not_in_an_interval() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(100, BUSY_BYTES_PER_S // 10 + 1)  # an urgent one, soon

    assert pace.plan(100) == BUSY_MS


def test_the_next_checkpoint_is_told_after_its_time_as_well() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)

    assert pace.left_ms(200) == (1_000, EVERY_MS)
    assert pace.left_ms(1_300) == (1_100, EVERY_MS), "one is under way"


def test_the_shortest_interval_has_a_pace() -> None:
    pace = CheckpointSchedule(1, 0)
    pace.plan(0)
    pace.begins(1, BUSY_BYTES_PER_S)

    assert pace.left_ms(1) == (0, 1)


def test_a_checkpoint_waits_a_quarter_of_an_interval_for_an_answer_that_is_late() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, BUSY_BYTES_PER_S * 4)
    pace.plan(1_200)
    every_ms = pace.every_ms

    assert pace.late_ms(2_200, BUSY_BYTES_PER_S) == every_ms // 4
    assert pace.late_ms(2_200, BUSY_BYTES_PER_S * 2) == 0, "half of what came before is no sign"

    pace.begins(2_450, BUSY_BYTES_PER_S * 4)  # it waited
    assert pace.plan(2_500) == pace.due_ms - 2_500
    assert pace.due_ms == 3_200, "on the grid"


def test_where_little_is_read_nothing_is_late() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, BUSY_BYTES_PER_S - 1)

    assert pace.late_ms(2_400, 0) == 0


def test_far_behind_the_end_of_a_log_nothing_is_late() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, FLOOD_BYTES_PER_S * 2, behind=True)

    assert pace.late_ms(3_200, 0) == 0


def test_a_busy_worker_stores_rows_more_often_than_snapshots_until_it_is_no_longer_busy() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    assert pace.snapshots_every == 1
    pace.plan(0)
    pace.begins(1_200, BUSY_BYTES_PER_S * 2)
    assert pace.snapshots_every > 1

    pace.begins(2_200, BUSY_BYTES_PER_S - 1)
    assert pace.snapshots_every == 1


def test_the_end_of_a_catch_up_has_a_snapshot() -> None:
    pace = CheckpointSchedule(EVERY_MS, 0)
    pace.plan(0)
    pace.begins(1_200, FLOOD_BYTES_PER_S * 2, behind=True)
    assert pace.snapshots_every > 1
    pace.begins(1_200 + FLOOD_MS, FLOOD_BYTES_PER_S * 3, behind=False)
    assert pace.snapshots_every == 1
    pace.begins(1_200 + FLOOD_MS + BUSY_MS, BUSY_BYTES_PER_S * 2)
    assert pace.snapshots_every > 1
