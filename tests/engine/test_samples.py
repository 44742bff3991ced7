"""GPU samples as bytes and as single records: the same books, whatever the records are and however the log is cut."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.tables import ARCHIVE
from streams import fallbacks
from streams.engine.batch import LogBatch, LogRecord, Record
from streams.engine.coverage.shapes import MOST_SHAPES, Shapes
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.columns_ahead import ColumnsAhead
from streams.engine.shard.partitioning import partition_of
from streams.engine.shard.samples import SampleColumns
from streams.engine.shard.shard import Shard
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.versions import VersionClock
from tests.property.profile import PROFILE
from tests.raw_records import raw

T0 = 1_780_308_000_000
DAY_MS = 86_400_000

SAMPLE: dict[str, Any] = {
    "source": "x",
    "time_ms": T0,
    "node": "n",
    "interval_ms": 1000,
    "gpus": ["a"],
    "util_ratio": [0.5],
    "job_id": "j",
}
_BROKEN = (b"", b"{", b"[]", b'{"node": "n"}', b'{"node": "\xff"}', None)


@st.composite
def samples(draw: st.DrawFn) -> dict[str, Any]:
    """A sample of one of a few exporters: on time, late, too late, of the future, idle, odd."""
    gpus = draw(st.sampled_from([["a"], ["a", "b"], ["b", "a"], ["a", "a"], ["ä"]]))
    found: dict[str, Any] = {
        "source": draw(st.sampled_from(["x", "y"])),
        "time_ms": T0
        + draw(st.integers(0, 3)) * draw(st.sampled_from([500, 1000, 60_000, 400_000, DAY_MS // 2])),
        "node": draw(st.sampled_from(["n1", "n2"])),
        "interval_ms": draw(st.sampled_from([1, 1000, 30_000, 90_000])),
        "gpus": gpus,
        "util_ratio": draw(
            st.lists(st.sampled_from([0.0, 0.25, 1, 1.5]), min_size=len(gpus), max_size=len(gpus))
        ),
        "job_id": draw(st.sampled_from(["j1", "j2", "", "j\u00e4", 'j"'])),
    }
    if draw(st.booleans()):
        found["attempt"] = draw(st.integers(1, 2))
    if draw(st.booleans()):
        found["id"] = draw(st.sampled_from(["1", "2", "é"]))
    if draw(st.booleans()):
        found["gpu_type"] = draw(st.sampled_from(["H100", "A100"]))
    if draw(st.booleans()):
        found["power_w"] = [draw(st.sampled_from([0, 350.5]))] * len(gpus)
    if draw(st.booleans()):
        found["extra"] = 1
    return found


VALUES = st.one_of(samples().map(orjson.dumps), samples().map(orjson.dumps), st.sampled_from(_BROKEN))
HEADERS = st.sampled_from([(), (), (), (("other", b"1"),)])


def state(shard: Shard) -> object:
    """All that samples may have changed."""
    shard.publish_samples()
    coverage = shard.coverage
    rows = {}
    for holder in coverage.holders():
        usage = coverage.usage(coverage.rows_of([holder.number]))
        rows[(holder.job_id, holder.attempt, holder.node)] = [column.tolist() for column in usage[1:]]
    jobs = {
        (job.id, number): (
            job.first_ms,
            job.last_ms,
            job.heard_ms,
            attempt.sampled,
            attempt.winners,
            attempt.dirty_metered,
        )
        for job in shard.jobs.values()
        for number, attempt in job.attempts.items()
    }
    return (
        shard.books, shard.tallies, shard.position.next, shard.position.newest_ms, shard.position.log_ms, rows, jobs, shard.due.dirty_jobs,
        shard.due.sampled_jobs, shard.snapshots.changes.jobs, shard.snapshots.changes.sampled, shard.refused.letters, shard.refused.replays,
    )  # fmt: skip


def ahead(parser: ColumnsAhead | None) -> Callable[[list[LogRecord]], Sequence[Record]]:
    """As a fetch brings them that was parsed before: by one parser, or (None) each by a new one."""

    def as_fetched(records: list[LogRecord]) -> Sequence[Record]:
        found = raw(records)
        (parser or ColumnsAhead(None)).read("gpu", 0, found)
        return found

    return as_fetched


def start(job_id: str) -> LogBatch:
    value = {"source": "s", "id": "1", "time_ms": T0, "job_id": job_id, "type": "started", "gpu_count": 2}
    return LogBatch("jobs", 0, 0, 1, [LogRecord(0, T0, orjson.dumps(value))])


@PROFILE
@given(
    st.lists(st.tuples(VALUES, HEADERS), max_size=25),
    st.lists(st.integers(0, 25), max_size=4),
    st.booleans(),
    st.sampled_from([0, 2 * DAY_MS]),
    st.sampled_from([1, MOST_SHAPES]),
    st.sampled_from([0, 1]),
)
def test_bytes_and_records_come_to_the_same(
    values: list[tuple[bytes | None, tuple[tuple[str, bytes], ...]]],
    cuts: list[int],
    started: bool,
    since_ms: int,
    most_shapes: int,
    overlap: int,
) -> None:
    parser = ColumnsAhead(None) if most_shapes > 1 else None
    log = [
        LogRecord(i, T0 + 40_000 * i + since_ms, value, headers) for i, (value, headers) in enumerate(values)
    ]
    edges = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    ways: list[Callable[[list[LogRecord]], Sequence[Record]]] = [list, raw, ahead(parser)]
    twins = [Shard(0, ShardSettings(dead_letters_per_minute=2), PriceBook.empty()) for _ in ways]
    twins[1].samples = SampleColumns(twins[1].partition, Shapes(most_shapes))
    # Read again from a little before: what is known is trimmed.
    spans = [(max(begin - overlap, 0), end) for begin, end in pairwise(edges)]
    for shard, as_fetched in zip(twins, ways, strict=True):
        if started:
            shard.fold(start("j1"))
            shard.checkpoint(T0, 1, open_attempts=True)
        # All are fetched before one is folded.
        for batch in [LogBatch("gpu", 0, *span, as_fetched(log[slice(*span)])) for span in spans]:
            assert shard.missing(batch) == {}
            assert shard.fold(batch) is None
    assert all(state(twin) == state(twins[0]) for twin in twins[1:])


def event(offset: int, kind: str, at_ms: int) -> LogBatch:
    value = {"source": "s", "id": str(offset), "time_ms": at_ms, "job_id": "j1", "type": kind}
    return LogBatch("jobs", 0, offset, offset + 1, [LogRecord(offset, at_ms, orjson.dumps(value))])


def times_of(shard: Shard) -> dict[str, tuple[int, int, int]]:
    return {job.id: (job.first_ms, job.last_ms, job.heard_ms) for job in shard.jobs.values()}


Story = list[tuple[str, bytes | None, int]]


class Told:
    """A story on one shard: what it held after each step, and all rows."""

    def __init__(self, as_fetched: Callable[[list[LogRecord]], Sequence[Record]], most_shapes: int) -> None:
        self.shard = Shard(0, ShardSettings(job_horizon_ms=DAY_MS // 2), PriceBook.empty())
        self.shard.samples = SampleColumns(self.shard.partition, Shapes(most_shapes))
        self.as_fetched = as_fetched
        self.now_ms, self.version, self.events = T0, 0, 1
        self.chain: list[bytes] = []
        self.archive: dict[str, bytes] = {}
        self.held: list[object] = []

    def fold(self, batch: LogBatch) -> None:
        self.shard.adopt({job_id: self.archive[job_id] for job_id in self.shard.missing(batch)})
        assert self.shard.fold(batch) is None

    def tell(self, story: Story) -> None:
        self.fold(start("j1"))
        for offset, (step, value, more_ms) in enumerate(story):
            self.now_ms += more_ms
            if value is None:  # a sample of now
                value = orjson.dumps(SAMPLE | {"job_id": "j1", "time_ms": self.now_ms})
            records = self.as_fetched([LogRecord(offset, self.now_ms, value)])
            self.fold(LogBatch("gpu", 0, offset, offset + 1, records))
            if step in ("completed", "heartbeat", "started"):
                self.fold(event(self.events, step, self.now_ms))
                self.events += 1
            if step.startswith("checkpoint"):
                self.store(open_attempts=step == "checkpoint with open attempts")
            if step != "nothing":
                self.held.append(copy.deepcopy(state(self.shard)))

    def store(self, *, open_attempts: bool) -> None:
        self.version += 1
        point = self.shard.checkpoint(self.now_ms, self.version, open_attempts=open_attempts)
        self.chain.append(point.snapshot)
        rows = {name: table.to_pylist() for name, table in point.tables.items()}
        self.archive |= {row["job_id"]: row["blob"] for row in rows.pop(ARCHIVE, [])}
        self.held.append(rows)


#: The job is open for some checkpoints, ends, and is sampled still.
ORDINARY: Story = [
    *[("checkpoint with open attempts", None, 1000)] * 2,
    *[("checkpoint", None, 1000)] * 3,
    ("heartbeat", None, 1000),
    ("completed", None, 1000),
    ("checkpoint with open attempts", None, 1000),
    *[("published", None, 1000)] * 2,
    ("checkpoint", None, 1000),
]


@PROFILE
@example(ORDINARY, MOST_SHAPES)
@example(ORDINARY[:5], MOST_SHAPES)
@example(ORDINARY[:5], 1)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([
                "nothing", "published", "completed", "heartbeat", "started", "checkpoint", "checkpoint with open attempts",
                "checkpoint with open attempts",
            ]),
            st.one_of(st.none(), samples().map(orjson.dumps)),
            st.sampled_from([0, 1000, 70_000, DAY_MS]),
        ),
        max_size=25,
    ),
    st.sampled_from([1, MOST_SHAPES]),
)  # fmt: skip
def test_rows_and_snapshots_are_the_same_at_each_checkpoint(story: Story, most_shapes: int) -> None:
    twins = [Told(list, MOST_SHAPES), Told(raw, most_shapes), Told(ahead(None), most_shapes)]
    for twin in twins:
        twin.tell(story)
    assert all(twin.held == twins[0].held for twin in twins[1:])
    for twin in twins:
        twin.store(open_attempts=False)
        again = Shard.restore(0, twin.shard.settings, PriceBook.empty(), twin.chain)
        assert times_of(again) == times_of(twin.shard)


def test_ordinary_samples_need_no_object_each() -> None:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    log = [LogRecord(i, T0, orjson.dumps(SAMPLE | {"job_id": f"j{i % 3}", "id": str(i)})) for i in range(9)]
    columns = shard.samples.read(raw(log), ShardSettings())
    assert not columns.events
    assert shard.samples.job_ids(columns) == {"j0", "j1", "j2"}


def test_what_was_parsed_ahead_is_not_parsed_again() -> None:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    fetched = ahead(ColumnsAhead(None))([LogRecord(0, T0, orjson.dumps(SAMPLE))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shapes, "parse", None)
        shard.fold(LogBatch("gpu", 0, 0, 1, fetched))
    assert shard.books.applied == 1


def test_a_sample_of_the_future_is_refused_though_it_was_parsed() -> None:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    fetched = ahead(ColumnsAhead(None))([LogRecord(0, T0 - DAY_MS, orjson.dumps(SAMPLE))])
    shard.fold(LogBatch("gpu", 0, 0, 1, fetched))
    assert [letter.reason for letter in shard.refused.letters] == ["future"]


def test_what_is_parsed_ahead_for_another_partition_is_refused() -> None:
    shard = Shard(1, ShardSettings(partitions=8), PriceBook.empty())
    reader = ColumnsAhead(8)
    samples = [LogRecord(i, T0, orjson.dumps(SAMPLE | {"job_id": f"j{i}"})) for i in range(16)]
    fetched = raw(samples)
    reader.read("gpu", 1, fetched)
    shard.fold(LogBatch("gpu", 1, 0, 16, fetched))
    ours = [f"j{i}" for i in range(16) if partition_of(f"j{i}", 8) == 1]
    assert sorted(shard.jobs) == ours
    assert {letter.reason for letter in shard.refused.letters} == {"wrong_partition"}
    assert len(shard.refused.letters) == 16 - len(ours)


def test_an_envelope_in_the_headers_is_opened() -> None:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    value = {name: of for name, of in SAMPLE.items() if name not in {"source", "time_ms"}}
    names = (("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"x"), ("ce_type", b"gpu"))
    headers = (*names, ("ce_time", b"2026-06-01T10:00:00Z"))
    shard.fold(LogBatch("gpu", 0, 0, 1, raw([LogRecord(0, T0, msgspec.json.encode(value), headers)])))
    assert shard.books.applied == 1, shard.refused.letters


def test_samples_of_gpus_that_no_job_has_are_counted_apart() -> None:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    idle = {name: of for name, of in SAMPLE.items() if name != "job_id"}
    values = [
        SAMPLE,
        idle | {"id": "2"},
        idle | {"id": "3", "job_id": ""},
        {**idle, "id": "4", "job_id": None},
    ]
    log = [LogRecord(i, T0, orjson.dumps(value)) for i, value in enumerate(values)]
    shard.fold(LogBatch("gpu", 0, 0, 2, raw(log[:2])))
    shard.fold(LogBatch("gpu", 0, 2, 4, log[2:]))
    assert (shard.books.records_in, shard.books.applied, shard.books.unattributed) == (4, 1, 3)
    assert shard.books.balanced
    assert shard.tallies["gpu"].unattributed == 3


@pytest.mark.parametrize("is_column", [True, False])
def test_gpus_without_a_job_beyond_the_limit_are_counted_and_not_kept(is_column: bool) -> None:
    shard = Shard(0, ShardSettings(max_idle_gpus=2), PriceBook.empty())
    before = fallbacks.counts[fallbacks.GPU_NOT_KEPT]
    idle = {name: of for name, of in SAMPLE.items() if name != "job_id"}
    names = ["n1", "n2", "n3", "n1", "n3"]
    values = [
        idle | {"id": str(at), "node": node, "gpus": ["0"], "util_ratio": [0.5], "time_ms": T0 + 1000 * at}
        for at, node in enumerate(names)
    ]
    values.append(values[-1] | {"job_id": "j", "id": "of a job"})
    log = [LogRecord(at, T0, orjson.dumps(value)) for at, value in enumerate(values)]
    shard.fold(LogBatch("gpu", 0, 0, len(log), raw(log) if is_column else log))
    assert (shard.books.unattributed, shard.books.applied, shard.books.balanced) == (5, 1, True)
    known = {holder.place()[0] for holder in shard.coverage._names.of_job("")}
    assert known == {"n1", "n2"}
    assert len(shard.coverage._names.of_job("j")) == 1, "a job's samples have no such limit"
    assert fallbacks.counts[fallbacks.GPU_NOT_KEPT] == before + 1, "once for the messages of one node"


def test_samples_that_wait_weigh_as_the_minutes_they_speak_of_not_as_they_are_many() -> None:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    held = OwnedShard(0, shard, VersionClock(0, 1), Takeover(0, 1))

    def feed(first: int, stop: int) -> int:
        log = [
            LogRecord(i, T0, orjson.dumps(SAMPLE | {"id": str(i), "time_ms": T0 + 1000 * (i + 1)}))
            for i in range(first, stop)
        ]
        assert held.feed(LogBatch("gpu", 0, first, stop, raw(log)))
        return held.waiting_bytes

    assert held.waiting_bytes == 0
    of_a_minute = feed(0, 1)
    assert of_a_minute > 0
    assert feed(1, 60) == of_a_minute
    assert feed(60, 61) == 2 * of_a_minute
    assert held.fed_bytes > 60 * 100
    assert held.checkpoint(T0) is not None
    assert (held.waiting_bytes, held.fed_bytes) == (0, 0)


def test_whatever_else_waits_weighs_as_it_came() -> None:
    held = OwnedShard(0, Shard(0, ShardSettings(), PriceBook.empty()), VersionClock(0, 1), Takeover(0, 1))
    value = {
        "source": "x",
        "id": "1",
        "time_ms": T0,
        "job_id": "j",
        "type": "heartbeat",
        "note": "x" * 10_000,
    }
    log = raw([LogRecord(0, T0, orjson.dumps(value))])
    assert held.feed(LogBatch("jobs", 0, 0, 1, log))
    assert held.waiting_bytes == held.fed_bytes > 10_000
    assert held.checkpoint(T0) is not None
    assert held.waiting_bytes == 0
