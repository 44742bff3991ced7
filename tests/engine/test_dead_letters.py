"""A flood of bad records: sampled in storage, counted in full, alike however the log is cut; letters that come back."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.tables import DEAD_LETTER_REPLAYS, DEAD_LETTERS
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.dead_letters import (
    REPLAY_HEADER,
    SAMPLE_RAW_BYTES,
    WHOLE_BYTES_PER_MINUTE,
    Quota,
    RecordPosition,
    is_late_again,
    place_of,
    replay_of,
)
from streams.engine.shard.job_tables import late_by, late_gpus
from streams.engine.shard.shard import Shard

T0 = 1_780_308_000_000
MINUTE = 60_000
NODE = "n"


def shard(per_minute: int | None = 3) -> Shard:
    return Shard(0, ShardSettings(dead_letters_per_minute=per_minute), PriceBook.empty())


def batch(records: Sequence[LogRecord], topic: str = "gpu") -> LogBatch:
    return LogBatch(topic, 0, records[0].offset, records[-1].offset + 1, records)


def bad(offset: int, log_ms: int, value: bytes = b"{") -> LogRecord:
    return LogRecord(offset, log_ms, value)


def sample(offset: int, time_ms: int) -> LogRecord:
    event = {"node": NODE, "job_id": "j", "source": "s", "time_ms": time_ms, "interval_ms": 1000, "gpu": "0"}
    return LogRecord(offset, T0 + offset, json.dumps({**event, "util_ratio": 1.0}).encode())


def stored(shard: Shard, version: int = 1) -> pa.Table | None:
    return shard.checkpoint(T0, version, open_attempts=True).tables.get(DEAD_LETTERS)


def test_the_first_of_a_minute_are_whole_then_one_in_a_hundred_is_cut() -> None:
    one = shard(per_minute=3)
    value = b"{" + b"x" * 5_000
    one.fold(batch([bad(n, T0, value) for n in range(250)]))
    one.fold(batch([bad(n, T0 + MINUTE, value) for n in range(250, 252)]))
    rows = stored(one)
    assert rows is not None
    assert rows["offset"].to_pylist() == [0, 1, 2, 100, 200, 250, 251]
    assert [len(raw) for raw in rows["raw"].to_pylist()] == [5_001] * 3 + [SAMPLE_RAW_BYTES] * 2 + [5_001] * 2
    tally = one.tallies["gpu"]
    assert (tally.reasons, tally.stored) == ({"malformed_json": 252}, {"malformed_json": 7})
    assert one.books.dead_lettered == 252


def test_a_control_on_a_topic_of_jobs_is_withheld() -> None:
    one, owner = shard(), b'{"kind": "owner", "name": "ada", "slak": "https://hooks.example.com/s3cr3t"}'
    one.fold(batch([bad(0, T0, owner), bad(1, T0, owner[:-1]), bad(2, T0, b'{"owner":"ada"}')], "jobs"))
    rows = stored(one)
    assert rows is not None
    assert [json.loads(raw).get("withheld") for raw in rows["raw"].to_pylist()] == [True, True, None]
    assert "s3cr3t" not in str(rows.to_pylist())


def test_each_topic_and_reason_has_a_quota_of_its_own() -> None:
    one = shard(per_minute=1)
    one.fold(batch([bad(0, T0), bad(1, T0), bad(2, T0, b"[]"), bad(3, T0, b"[]")]))
    one.fold(batch([bad(0, T0)], "jobs"))
    rows = stored(one)
    assert rows is not None
    assert sorted(zip(rows["topic"].to_pylist(), rows["offset"].to_pylist(), strict=True)) == [
        ("gpu", 0),
        ("gpu", 2),
        ("jobs", 0),
    ]


def test_without_a_quota_everything_is_kept() -> None:
    one = shard(per_minute=None)
    one.fold(batch([bad(n, T0) for n in range(5_000)]))
    rows = stored(one)
    assert rows is not None
    assert rows.num_rows == 5_000


def test_large_records_fill_a_minute_before_their_count_does() -> None:
    quota, size_bytes = Quota(1_000_000), 2**20
    kept = [quota.raw_bytes("gpu", "oversize", T0, size_bytes) for _ in range(1_000)]
    whole = sum(keep is not None and keep > SAMPLE_RAW_BYTES for keep in kept)
    assert whole == WHOLE_BYTES_PER_MINUTE // (64 * 1024)


@settings(max_examples=40, deadline=None)
@given(cuts=st.sets(st.integers(1, 199)), restores=st.sets(st.integers(1, 199)), seed=st.integers(0, 2**32))
def test_the_same_rows_however_the_log_is_cut_and_restored(
    cuts: set[int], restores: set[int], seed: int
) -> None:
    chance = random.Random(seed)
    records = [
        _odd(n, T0 + n * 700 + chance.randrange(30_000)) for n in range(200)
    ]  # its time goes back, too
    expected = list(_rows([records], set()))
    ends = sorted(cuts | restores | {len(records)})
    parts = [records[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    assert list(_rows(parts, restores)) == expected


def _odd(n: int, log_ms: int) -> LogRecord:
    """Bad ones, and samples of which the later are too late: both kinds are refused at different steps of a fold."""
    if n % 3 == 0:
        return bad(n, log_ms)
    event = json.loads(sample(n, T0 + (0 if n > 4 else 2_000_000)).value or b"")
    return LogRecord(n, log_ms, json.dumps(event).encode())


def _rows(parts: Iterable[Sequence[LogRecord]], restores: set[int]) -> Iterable[tuple[object, ...]]:
    one, version = shard(per_minute=7), 0
    blobs: list[bytes] = []
    for part in parts:
        if not part:
            continue
        one.fold(batch(part))
        version += 1
        point = one.checkpoint(T0, version, open_attempts=True)
        blobs = [*blobs, point.snapshot] if point.parent else [point.snapshot]
        for row in point.tables[DEAD_LETTERS].to_pylist() if DEAD_LETTERS in point.tables else []:
            yield tuple(value for name, value in row.items() if name != "version")
        if part[-1].offset + 1 in restores:
            one = Shard.restore(0, one.settings, PriceBook.empty(), blobs)


def test_what_waits_for_a_checkpoint_is_weighed_and_let_go() -> None:
    one = shard(per_minute=None)
    one.fold(batch([bad(0, T0, b"{" * 1_000)]))
    assert one.refused_bytes >= 1_000
    stored(one)
    assert one.refused_bytes == 0


# -- letters that came back ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("gpu/3/41907", RecordPosition("gpu", 3, 41907)),
        ("gpu/3", None),
        ("gpu/-1/3", None),
        ("gpu/1/3\n", None),
        ("GPU/1/3", None),
        ("gpu/1/99999999999999999999", None),
    ],
)
def test_places(text: str, place: RecordPosition | None) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize("value", [b"gpu/0/7", b"gpu/0/9", b"jobs/0/3", b"\xff", None])
def test_a_header_that_cannot_be_true_is_nothing(value: bytes | None) -> None:
    assert replay_of([("other", b"gpu/0/3"), (REPLAY_HEADER, value)], RecordPosition("gpu", 0, 7)) is None


@pytest.mark.parametrize("offset", [3, 9])
def test_a_record_may_come_back_in_another_partition_whatever_its_offset(offset: int) -> None:
    header = (REPLAY_HEADER, b"gpu/1/%d" % offset)
    assert replay_of([header], RecordPosition("gpu", 0, 7)) == RecordPosition("gpu", 1, offset)


def test_a_letter_that_came_back_is_noted_applied_or_not() -> None:
    one = shard()
    good = sample(5, T0)
    records = [
        LogRecord(5, T0, good.value, [(REPLAY_HEADER, b"gpu/0/2")]),
        LogRecord(6, T0 - 10, b"{", [(REPLAY_HEADER, b"gpu/0/3")]),
        LogRecord(7, T0 + 5, b"{", [(REPLAY_HEADER, b"gpu/0/2")]),
    ]
    one.fold(LogBatch("gpu", 0, 0, 8, records))
    point = one.checkpoint(T0, 9, open_attempts=True)
    rows = point.tables[DEAD_LETTER_REPLAYS].to_pylist()
    assert [(row["offset"], row["to_partition"], row["to_offset"], row["version"]) for row in rows] == [
        (2, 0, 7, 9),
        (3, 0, 6, 9),
    ]
    assert point.tables[DEAD_LETTER_REPLAYS]["time"].cast(pa.int64()).to_pylist() == [T0 + 5, T0]
    names = list(point.tables)
    assert names.index(DEAD_LETTER_REPLAYS) < names.index("books"), "whoever sees these finds those"
    assert DEAD_LETTER_REPLAYS not in one.checkpoint(T0, 10, open_attempts=True).tables


def test_lateness_is_known_again_from_the_words_for_it() -> None:
    detail = late_by(T0, T0 + 90_000)
    assert is_late_again(detail, job_horizon_ms=89_999, late_horizon_ms=0)
    assert not is_late_again(detail, job_horizon_ms=90_000, late_horizon_ms=0)
    assert is_late_again(late_gpus(600_000), job_horizon_ms=2**60, late_horizon_ms=600_000)
    assert not is_late_again(late_gpus(600_000), job_horizon_ms=2**60, late_horizon_ms=600_001)
    assert not is_late_again("field `x`: got 1, expected 2", job_horizon_ms=0, late_horizon_ms=0)
