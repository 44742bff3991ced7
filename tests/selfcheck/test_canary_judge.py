"""What becomes of canary runs: every outcome, on a time line moved by hand."""

from __future__ import annotations

import pytest

from streams.selfcheck.canary.counts import CanaryCounts
from streams.selfcheck.canary.judge import CanaryJudge, CanaryRows
from streams.selfcheck.canary.plan import NETWORK_BYTES, RUN_MS, CanaryOptions, CanaryRun, run_at

OPTIONS = CanaryOptions(partitions=4)
EXACT = CanaryRows("completed", RUN_MS, 1_000, 10, NETWORK_BYTES)
SLOT = 1_800_000_000_000


class Line:
    """One judge on a time line; instants are seconds since its begin."""

    def __init__(self) -> None:
        self.judge = CanaryJudge(OPTIONS)
        self.counts = CanaryCounts()
        self.told: list[tuple[str, int | None, int | None]] = []

    def run(self, number: int, at_s: float, acknowledged: bool = True) -> CanaryRun:
        run = run_at(SLOT + number * OPTIONS.interval_ms, OPTIONS)
        self.judge.start_run(run, _ms(at_s))
        if acknowledged:
            self.judge.acknowledged(run, _ms(at_s))
        return run

    def look(self, at_s: float, *found: tuple[CanaryRun, CanaryRows]) -> None:
        asked = self.judge.wanted(_ms(at_s))
        self.judge.compare(asked, {run.job_id: what for run, what in found}, _ms(at_s))
        self.at(at_s)

    def at(self, at_s: float) -> list[tuple[str, int | None, int | None]]:
        self.judge.pass_time(_ms(at_s))
        for result in self.judge.results:
            self.counts.add(result, _ms(at_s))
            self.told.append((result.outcome, result.found_nano, result.delay_ms))
        self.judge.results = []
        return self.told

    @property
    def opened(self) -> list[str]:
        return sorted(outcome for outcome, by in self.judge.opened.items() if by is not None)


def _ms(at_s: float) -> int:
    return round(at_s * 1_000)


def test_a_run_that_is_found_in_time_is_right_and_looked_at_a_second_time() -> None:
    line = Line()
    run = line.run(0, 0)
    line.look(0.5)
    line.look(1.25, (run, EXACT))
    assert line.told == [("right", 1_000, 1_250)]
    assert line.judge.opened == {"late": None, "wrong": None}
    assert line.judge.wanted(_ms(59)) == []
    assert line.judge.wanted(_ms(60)) == [run.job_id]
    line.look(60, (run, EXACT))
    assert line.judge.wanted(_ms(200)) == []
    assert (line.counts.runs, line.counts.latency_ms, line.counts.error_ratio) == (1, 1_250, 0.0)
    assert line.counts.right_at_ms == 1_250


@pytest.mark.parametrize(
    "partial",
    [
        None,
        CanaryRows("running", 5_000, 500, 0, 0),
        CanaryRows("completed", RUN_MS, 1_000, 10, 0),
        CanaryRows("completed", RUN_MS, 1_000, 9, NETWORK_BYTES),
        CanaryRows("completed", 0, 0, 10, NETWORK_BYTES),
    ],
)
def test_what_is_not_whole_yet_is_late_and_never_wrong(partial: CanaryRows | None) -> None:
    line = Line()
    run = line.run(0, 0)
    for at_s in range(31):
        line.look(at_s, *([] if partial is None else [(run, partial)]))
        assert line.told == ([] if at_s <= 10 else [("late", None, None)])
    assert line.opened == ["late"]
    line.look(33, (run, EXACT))
    assert line.told[1:] == [("late", 1_000, 33_000)]
    # It came: the costs are right, and it was late all the same; counted once.
    assert line.opened == ["late"]
    assert (line.counts.runs, line.counts.late) == (1, 1)
    following = line.run(1, 60)
    line.look(61, (run, EXACT), (following, EXACT))
    assert line.opened == []
    assert (line.counts.runs, line.counts.late, line.counts.wrong) == (2, 1, 0)


def test_a_run_that_nobody_looked_at_in_time_is_late_too() -> None:
    """The whole process stood still, say."""
    line = Line()
    run = line.run(0, 0)
    line.look(10.001, (run, EXACT))
    assert line.told == [("late", 1_000, 10_001)]
    assert line.opened == ["late"]


@pytest.mark.parametrize(
    "deviating",
    [
        EXACT._replace(cost_nano=1_002),
        EXACT._replace(cost_nano=998),
        EXACT._replace(cost_nano=2_000),
        EXACT._replace(cost_nano=0),
        EXACT._replace(sampled_gpu_s=20),
        EXACT._replace(network_bytes=2 * NETWORK_BYTES),
    ],
)
def test_what_is_whole_and_stays_different_is_wrong(deviating: CanaryRows) -> None:
    line = Line()
    run = line.run(0, 0)
    for at_s in range(1, 12):
        assert line.told == []
        line.look(at_s, (run, deviating))
    assert line.told == [("wrong", deviating.cost_nano, None)]
    assert line.opened == ["wrong"]
    assert (line.counts.runs, line.counts.wrong, line.counts.late) == (1, 1, 0)
    # Not before a later run is right is it over.
    later = line.run(1, 60)
    line.look(61, (later, EXACT))
    assert line.opened == []


@pytest.mark.parametrize("cost_nano", [999, 1_001])
def test_a_difference_of_a_thousandth_is_right(cost_nano: int) -> None:
    line = Line()
    run = line.run(0, 0)
    line.look(1, (run, EXACT._replace(cost_nano=cost_nano)))
    assert line.told == [("right", cost_nano, 1_000)]
    assert line.counts.error_ratio == pytest.approx(0.001)


def test_a_difference_that_passes_is_not_wrong() -> None:
    """A checkpoint is stored table by table, and an open attempt is paid up to now."""
    line = Line()
    run = line.run(0, 0)
    line.look(1, (run, EXACT._replace(cost_nano=500)))
    line.look(8, (run, EXACT))
    assert line.told == [("right", 1_000, 8_000)]


def test_while_the_store_does_not_answer_a_run_is_late_whatever_it_said_before() -> None:
    line = Line()
    run = line.run(0, 0)
    line.look(1, (run, EXACT._replace(cost_nano=500)))
    line.judge.blind()
    assert line.at(10) == []
    assert line.at(10.001) == [("late", None, None)]
    # The first looks after it came back say nothing yet: what was on its way may still land.
    line.look(100, (run, EXACT._replace(cost_nano=500)))
    line.look(105, (run, EXACT))
    assert line.told[1:] == [("late", 1_000, 105_000)]
    assert line.opened == ["late"]


def test_events_that_kafka_does_not_acknowledge_are_late() -> None:
    line = Line()
    run = line.run(0, 0, acknowledged=False)
    assert line.judge.wanted(5_000) == []
    line.judge.not_sent(run, "no leader")
    line.judge.pass_time(10_001)
    assert [result.detail for result in line.judge.results] == ["no leader"]
    assert line.at(10.001) == [("late", None, None)]
    # It is in the log at last: its delay counts from there, and it stays late.
    line.judge.acknowledged(run, 40_000)
    line.look(41, (run, EXACT))
    assert line.told[1:] == [("late", 1_000, 1_000)]


def test_a_run_that_was_right_and_changes_is_wrong_at_the_second_look() -> None:
    line = Line()
    run = line.run(0, 0)
    line.look(1, (run, EXACT))
    for at_s in range(60, 71):
        line.look(at_s, (run, EXACT._replace(cost_nano=2_000)))
    assert [outcome for outcome, _, _ in line.told] == ["right", "wrong"]
    assert line.opened == ["wrong"]


def test_a_run_whose_rows_vanish_is_wrong_at_the_second_look() -> None:
    line = Line()
    run = line.run(0, 0)
    line.look(1, (run, EXACT))
    for at_s in range(60, 71):
        line.look(at_s)
    assert line.told[-1][:2] == ("wrong", 0)


def test_an_older_run_does_not_say_that_it_is_over() -> None:
    line = Line()
    first, second = line.run(0, 0), line.run(1, 5)
    for at_s in (6, 10, 14, 17):
        line.look(at_s, (second, EXACT._replace(cost_nano=0)))
    assert line.opened == ["late", "wrong"], "the first was not there in time, the second is wrong"
    line.look(18, (first, EXACT))
    assert line.opened == ["late", "wrong"]


def test_runs_go_round_the_shards_and_begin_with_whole_intervals() -> None:
    judge = CanaryJudge(OPTIONS)
    assert judge.due(SLOT + 17_000) is None, "what an owner before us may have begun is his"
    assert judge.due(SLOT + 59_999) is None
    runs = []
    for number in range(1, 9):
        run = judge.due(SLOT + number * 60_000 + 120)
        assert run is not None
        assert judge.due(SLOT + number * 60_000 + 59_000) is None
        runs.append(run)
    assert [run.at_ms for run in runs] == [SLOT + number * 60_000 for number in range(1, 9)]
    assert sorted(run.shard for run in runs[:4]) == sorted(run.shard for run in runs[4:]) == [0, 1, 2, 3]
    # The clock goes back a little: nothing twice; by an hour: on from there.
    assert judge.due(SLOT + 7 * 60_000) is None
    back = judge.due(SLOT - 3_600_000)
    assert back is not None
    assert back.at_ms == SLOT - 3_600_000


def test_no_more_runs_are_remembered_than_can_be_looked_after() -> None:
    line = Line()
    for number in range(100):
        line.run(number, number * 60)
    assert len(line.judge.wanted(_ms(100 * 60))) == 16
