"""Quality and progress of a job: of each name the last value, whatever came first, and no event is kept for it."""

from __future__ import annotations

import itertools

from tests.engine.test_state_bounds import fed
from tests.harness import Meter
from tests.oracle.cases import T0, job, price
from tests.oracle.compute import compute
from tests.oracle.model import MINUTE_MS, Line
from tests.property.compare import assert_same

M = MINUTE_MS


def metered(lines: list[Line]) -> Meter:
    machine = fed(lines, 2)
    assert_same(machine.tables(), compute(lines))
    return machine


def test_the_last_value_of_each_name_counts_in_any_order() -> None:
    lines = [
        job("j", "started", T0, gpu_count=1, quality={"loss": 3, "accuracy": 0.1}),
        job("j", "heartbeat", T0 + 2 * M, progress={"step": 200}),
        job("j", "checkpointed", T0 + M, quality={"loss": 2.5}, progress={"step": 100, "epoch": 1}),
        job("j", "failed", T0 + 3 * M, quality={"loss": 2}),
    ]
    for order in itertools.permutations(lines):
        found = metered(list(order)).tables().jobs["j"]
        assert found.quality == (("accuracy", 0.1), ("loss", 2.0))
        assert found.progress == (("epoch", 1.0), ("step", 200.0))


def test_a_later_attempt_counts_before_a_later_time() -> None:
    lines = [
        job("j", "started", T0, gpu_count=1),
        job("j", "started", T0 + M, attempt=2, progress={"step": 10}),
        job("j", "heartbeat", T0 + 5 * M, progress={"step": 99}),
    ]
    assert metered(lines).tables().jobs["j"].progress == (("step", 10.0),)


def test_of_many_names_the_first_are_kept() -> None:
    said = [{f"n{9 * k % 100:02}": k} for k in range(100)]
    lines = [job("j", "heartbeat", T0 + k * M, progress=each) for k, each in enumerate(said)]
    for order in (lines, lines[::-1]):
        found = metered(order).tables().jobs["j"].progress
        assert [name for name, _ in found] == [f"n{k:02}" for k in range(64)]


def test_events_that_only_measure_are_not_kept() -> None:
    lines = [price("p", "2"), job("j", "started", T0, gpu_count=1)]
    lines += [job("j", "heartbeat", T0 + k * M, progress={"step": k}) for k in range(1, 300)]
    lines += [job("j", "updated", T0 + 300 * M, quality={"loss": 0.5})]
    machine = fed(lines, 50)
    assert_same(machine.tables(), compute(lines))
    assert len(machine.shards[0].jobs["j"].attempts[1].events) == 1
    assert machine.tables().jobs["j"].progress == (("step", 299.0),)
