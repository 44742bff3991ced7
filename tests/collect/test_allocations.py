"""Allocations of the past: what is over is kept with its end, for a day, and asked of traffic only."""

from __future__ import annotations

from pathlib import Path

from streams.collect.allocations import (
    Allocation,
    Allocations,
    JobHolder,
    PastAllocations,
    stored_allocations,
    with_past,
    write_allocations,
)

DAY_MS = 86_400_000
NOW_MS = 1_790_000_000_000


def test_what_is_over_keeps_its_end_for_a_day(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    run_7, run_8 = (
        Allocation("n1", "run-7", from_ms=1_000),
        Allocation("n2", "run-8", gpus=["0"], from_ms=2_000),
    )
    assert with_past(path, [run_7], {}, NOW_MS) == [run_7]
    write_allocations(path, [run_7, run_8])
    ends = {JobHolder("run-7", 1): NOW_MS - 5_000}
    found = with_past(path, [run_8], ends, NOW_MS)
    assert found == [run_8, Allocation("n1", "run-7", from_ms=1_000, until_ms=NOW_MS - 5_000)]
    write_allocations(path, found)
    assert stored_allocations(path) == found
    # The end that is stored stays, whatever is known later; without one it is the time of the poll.
    assert with_past(path, [], {}, NOW_MS + 7)[0].until_ms == NOW_MS + 7
    assert with_past(path, [], {}, NOW_MS + 7)[1].until_ms == NOW_MS - 5_000
    assert with_past(path, [run_8], {}, NOW_MS - 5_000 + DAY_MS) == [run_8]


def test_a_file_that_is_none_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{")
    assert with_past(path, [], {}, NOW_MS) == []


def test_a_gpu_is_its_holders_at_the_end_of_the_sample() -> None:
    over, now = Allocation("n1", "run-7", until_ms=5_000), Allocation("n1", "run-8", from_ms=5_000)
    held = Allocations([over, now])
    assert held.of_gpu("n1", ["0"], 1_000, 5_000) == JobHolder("run-7", 1)
    assert held.of_gpu("n1", ["0"], 4_000, 5_001) == JobHolder("run-8", 1)
    assert Allocations([over]).of_gpu("n1", ["0"], 4_000, 14_000) == JobHolder(
        "run-7", 1
    )  # it ended in between
    assert Allocations([over]).of_gpu("n1", ["0"], 5_000, 15_000) is None
    # A scheduler's clock that is ahead of the exporter's takes no sample away.
    assert Allocations([now]).of_gpu("n1", ["0"], 3_000, 4_000) == JobHolder("run-8", 1)
    both = Allocations([over, Allocation("n1", "run-9", until_ms=6_000)])
    assert both.of_gpu("n1", ["0"], 1_000, 4_000) is None  # nobody guesses
    assert both.of_gpu("n1", ["0"], 1_000, 5_500) == JobHolder("run-9", 1)
    gpus = Allocations(
        [Allocation("n1", "run-1", gpus=["0"], until_ms=9_000), Allocation("n1", "run-2", gpus=["1"])]
    )
    assert gpus.of_gpu("n1", ["0"], 0, 9_000) == JobHolder("run-1", 1)
    assert gpus.of_gpu("n1", ["0"], 9_000, 19_000) is None
    pods = Allocations(
        [
            Allocation("n1", "a", pod="ml/w-0", until_ms=5_000),
            Allocation("n2", "b", pod="ml/w-0", from_ms=6_000),
        ]
    )
    assert pods.of_pod("ml/w-0", 0, 5_000) == JobHolder("a", 1)
    assert pods.of_pod("ml/w-0", 0, 9_000) == JobHolder("b", 1)


def test_a_node_in_the_time_of_a_flow() -> None:
    over, now = Allocation("n1", "run-7", until_ms=5_000), Allocation("n1", "run-8", from_ms=5_000)
    past = PastAllocations([over, now])
    assert past.of_node("n1", 4_000, 5_000) == {JobHolder("run-7", 1)}
    assert past.of_node("n1", 5_000, 6_000) == {JobHolder("run-8", 1)}
    assert past.of_node("n1", 4_999, 5_001) == {JobHolder("run-7", 1), JobHolder("run-8", 1)}
