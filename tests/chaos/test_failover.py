"""The times that are promised of a shard whose worker goes away, measured with the default settings."""

from __future__ import annotations

import signal
import statistics
from pathlib import Path

import pytest

from tests.chaos.failover import after, rolling_restart_s, static_restart, table

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]


def test_after_a_kill_shards_move_again_once_the_session_is_over(tmp_path: Path) -> None:
    found = after(signal.SIGKILL, 7, tmp_path)
    print(table("SIGKILL", found))  # noqa: T201 - the figures of the run
    assert statistics.median(each.stored_s for each in found) < 15


def test_after_a_stop_in_order_shards_move_at_once(tmp_path: Path) -> None:
    found = after(signal.SIGTERM, 7, tmp_path)
    print(table("SIGTERM", found))  # noqa: T201 - the figures of the run
    assert statistics.median(each.stored_s for each in found) < 3


def test_a_rolling_restart_of_three_workers_pauses_no_shard_for_long(tmp_path: Path) -> None:
    pause_s = rolling_restart_s(tmp_path)
    print(f"longest pause of a shard {pause_s:.1f} s")  # noqa: T201 - the figures of the run
    assert pause_s < 10


def test_a_member_with_a_name_that_comes_back_in_time_moves_no_shard(tmp_path: Path) -> None:
    found = static_restart(tmp_path)
    print(found)  # noqa: T201 - the figures of the run
    assert found.rebalances_of_others == 0
    assert found.pause_of_others_s < 5
    assert found.pause_of_its_own_s < 15
