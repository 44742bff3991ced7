"""Ticks stand between records: after all with log time <= t, before any with a later one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streams.engine.batch import LogBatch, LogRecord
from streams.engine.shard.sequencer import TICK_MS, FoldStep, Sequencer, Ticks

TOPICS = ("jobs", "gpu", "network", "storage", "nodes")


def batch(topic: str, start: int, *log_ms: int, end: int | None = None) -> LogBatch:
    records = [LogRecord(start + at, ms, b"{}") for at, ms in enumerate(log_ms)]
    return LogBatch(topic, 0, start, start + len(log_ms) if end is None else end, records)


def done(align: Sequencer, quiet_ms: int, *, but: str = "") -> list[object]:
    """What may be done when every topic but one is known to be quiet up to an instant."""
    steps: list[object] = []
    for step in align.steps(lambda topic, _: -1 if topic == but else quiet_ms):
        if isinstance(step, FoldStep):
            steps.append((step.batch.topic, [record.timestamp for record in step.batch.records]))
        else:
            steps.append((step.first_ms, step.last_ms))
    return steps


def test_records_up_to_the_tick_then_the_tick_then_the_rest() -> None:
    align = Sequencer({})
    assert align.offer(batch("jobs", 0, 3_000, 10_000, 10_001)) is None
    assert done(align, 10_000) == [("jobs", [3_000, 10_000]), (10_000, 10_000), ("jobs", [10_001])]


def test_a_tick_waits_for_every_topic() -> None:
    align = Sequencer({})
    align.offer(batch("jobs", 0, 3_000, 12_000))
    assert done(align, 60_000, but="gpu") == []  # nobody knows where the shard begins
    align.offer(batch("gpu", 0, 4_000))
    assert done(align, 60_000, but="gpu") == [("jobs", [3_000]), ("gpu", [4_000])]
    align.offer(batch("gpu", 1, 25_000))
    assert done(align, 60_000, but="gpu") == [
        (10_000, 10_000),
        ("jobs", [12_000]),
        (20_000, 20_000),
        ("gpu", [25_000]),
    ]


def test_ticks_without_records_between_them_are_one_step() -> None:
    align = Sequencer({})
    align.offer(batch("jobs", 0, 10_000))
    assert done(align, 99_999) == [("jobs", [10_000]), (10_000, 90_000)]
    assert align.tick_ms == 100_000


def test_log_time_never_goes_back() -> None:
    align = Sequencer({}, 20_000)
    align.offer(batch("jobs", 0, 25_000, 5_000))
    assert done(align, 20_000) == [(20_000, 20_000), ("jobs", [25_000, 5_000])]


def test_a_cut_batch_keeps_its_interval() -> None:
    align = Sequencer({"jobs": 7}, 10_000)
    align.offer(LogBatch("jobs", 0, 7, 20, [LogRecord(9, 1, b""), LogRecord(15, 15_000, b"")]))
    folds = [step.batch for step in align.steps(lambda *_: 10_000) if isinstance(step, FoldStep)]
    assert [(part.start, part.end) for part in folds] == [(7, 15), (15, 20)]


def test_markers_alone_are_passed() -> None:
    align = Sequencer({}, 10_000)
    align.offer(LogBatch("jobs", 0, 0, 3, []))
    assert done(align, 9_999) == [("jobs", [])]
    assert align.next_offset("jobs") == 3


def test_a_hole_is_told_and_nothing_of_the_batch_is_kept() -> None:
    align = Sequencer({"jobs": 4})
    assert align.offer(batch("jobs", 6, 1_000)) == 4
    assert not align.waits
    assert (
        align.offer(batch("jobs", 2, 1_000, 1_000, 1_000)) is None
    )  # known records again: the shard trims them


def test_what_waits_is_forgotten_when_it_will_be_read_again() -> None:
    align = Sequencer({}, 10_000)
    align.offer(batch("jobs", 0, 11_000))
    assert align.waiting("jobs") == 1
    align.reset({"jobs": 0})
    assert (align.waits, align.next_offset("jobs"), align.tick_ms) == (False, 0, 10_000)


@given(
    st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 60_000)), max_size=30),
    st.lists(st.integers(0, 30), max_size=5),
    st.integers(1, 4),
)
def test_however_it_is_cut_each_tick_sees_exactly_the_records_before_it(
    records: list[tuple[str, int]], cuts: list[int], chunk: int
) -> None:
    log = sorted(records, key=lambda record: record[1])
    align = Sequencer({})
    seen: list[int] = []
    judged: dict[int, int] = {}
    offsets = dict.fromkeys(TOPICS, 0)
    edges = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    for begin, end in pairwise(edges):
        piece = log[begin:end]
        for topic in TOPICS:
            times = [ms for of, ms in piece if of == topic]
            for first in range(0, len(times), chunk):
                part = times[first : first + chunk]
                assert align.offer(batch(topic, offsets[topic], *part)) is None
                offsets[topic] += len(part)
        quiet_ms = log[end][1] - 1 if end < len(log) else 70_000
        for step in align.steps(lambda *_, quiet_ms=quiet_ms: quiet_ms):
            if isinstance(step, Ticks):
                judged |= dict.fromkeys(range(step.first_ms, step.last_ms + 1, TICK_MS), len(seen))
            else:
                seen += [record.timestamp for record in step.batch.records]
    first_ms = -(-log[0][1] // TICK_MS) * TICK_MS if log else 80_000
    assert judged == {tick: sum(ms <= tick for _, ms in log) for tick in range(first_ms, 70_001, TICK_MS)}
    assert sorted(seen) == [ms for _, ms in log]
