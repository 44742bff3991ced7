"""Sums of what a shard booked, by month."""

from __future__ import annotations

import numpy as np

from schemas.tables import JOB_MINUTES, LEDGER_SUMS
from streams.engine.ledger.sums import LedgerSums, month_sums

DECEMBER = 28_401_119  # 2023-12-31 23:59 UTC, in minutes since 1970


def sums_of(minutes: list[int], quantities: list[int], costs: list[int]) -> dict[int, tuple[int, int]]:
    return month_sums(np.array(minutes, np.int32), np.array(quantities, np.int64), np.array(costs, np.int64))


def test_minutes_are_added_up_by_their_month() -> None:
    assert sums_of([], [], []) == {}
    assert sums_of([DECEMBER, DECEMBER], [1, 2], [10, 20]) == {202312: (3, 30)}
    assert sums_of([DECEMBER, DECEMBER + 1, DECEMBER], [1, 2, 4], [10, -20, 40]) == {
        202312: (5, 50),
        202401: (2, -20),
    }


def test_a_month_is_written_when_rows_of_it_were() -> None:
    sums = LedgerSums()
    sums.add(JOB_MINUTES, {202312: (5, 50), 202401: (2, 20)})
    assert sums.drain_changed(3, 7)[LEDGER_SUMS].num_rows == 2
    assert sums.drain_changed(3, 8) == {}
    sums.add(JOB_MINUTES, {202401: (0, 0)})  # the same again, under a newer version
    assert sums.drain_changed(3, 9)[LEDGER_SUMS].to_pylist() == [
        {"table_name": JOB_MINUTES, "month": 202401, "quantity": 2, "cost_nano": 20, "shard": 3, "version": 9}
    ]


def test_quantities_wrap_as_the_engine_adds_them() -> None:
    sums = LedgerSums()
    sums.add(JOB_MINUTES, {202312: (2**63 - 1, 0)})
    sums.add(JOB_MINUTES, {202312: (1, 0)})
    assert sums.of(JOB_MINUTES) == {202312: (-(2**63), 0)}


def test_a_restored_shard_writes_all_its_sums_and_one_of_an_earlier_version_none() -> None:
    sums, restored, earlier = LedgerSums(), LedgerSums(), LedgerSums()
    sums.add(JOB_MINUTES, {202312: (5, 50), 202401: (2, 20)})
    restored.load(sums.dump())
    assert restored.drain_changed(0, 2)[LEDGER_SUMS].num_rows == 2
    earlier.load(None)
    earlier.add(JOB_MINUTES, {202312: (5, 50)})
    assert earlier.drain_changed(0, 2) == {}
    assert earlier.dump() is None
