"""The bytes of a fetch as RawRecords: what is in them, where reading goes on, and what is refused as aiokafka refuses it."""

from __future__ import annotations

import gc
import struct
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.unread_batch import Unread
from streams import fallbacks
from streams.engine.batch import LogRecord
from streams.engine.raw_records import RawRecords
from streams.transport import codecs, raw_batches, raw_fetch
from streams.transport.decompressed import DecompressedBytes
from tests.transport.batches import CODECS, TRANSACTIONAL, Written, batch, checked, marker

TP = TopicPartition("t.gpu", 0)
PAIR = [Written(0, 1_000, b"a"), Written(1, 1_007, b"")]
HEADERS = (("ce_id", b"1"), ("ce_id", b"2"), ("empty", b""), ("none", None), ("é", b"\xff"))
MANY = [
    *(Written(i, 1_000 + i, b"%d" % i * (i % 50), None if i % 3 else b"key") for i in range(3_000)),
    Written(3_000, 9_000, None),
    Written(3_001, 9_000, b"", headers=HEADERS),
]


def records_of(asked: Any, fetched: bytes, wanted: int, aborted: Any = None, level: int = 1) -> Any:
    """PartitionRecords as the fetcher makes them; `asked` is what the consumer has for making values."""
    return raw_fetch._partition_records(
        TP, raw_fetch.FetchedBytes(fetched), aborted, wanted, None, asked, True, level
    )


def read(fetched: bytes, wanted: int, aborted: Any = None, level: int = 1) -> tuple[list[LogRecord], int]:
    """By our transport; the next offset to fetch."""
    source = records_of(raw_fetch.AsRaw(), fetched, wanted, aborted, level)
    given = list(source)
    assert all(isinstance(each, RawRecords) for each in given)
    assert len(given) <= 1
    return [record for each in given for record in each], source.next_fetch_offset


def plain(fetched: bytes, wanted: int, aborted: Any = None, level: int = 1) -> tuple[list[LogRecord], int]:
    """By aiokafka's own."""
    source = records_of(None, fetched, wanted, aborted, level)
    found = [LogRecord(each.offset, each.timestamp, each.value, each.headers) for each in source]
    return found, source.next_fetch_offset


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wanted", [0, 10, 1_234, 3_011])
@pytest.mark.parametrize("appended_ms", [None, 5_000])
def test_every_codec_and_shape_reads_as_by_aiokafka(codec: str, wanted: int, appended_ms: int | None) -> None:
    fetched = bytes(
        (
            batch(0, PAIR, codec=codec) if wanted < 2 else b""
        )  # a broker begins with the batch that holds the offset
        + batch(10, MANY, codec=codec, appended_ms=appended_ms)
        + batch(4_000, [])
        + batch(5_000, PAIR, last_delta=7)
        + batch(6_000, PAIR, codec=codec)[:-1]
    )
    found = read(fetched, wanted)
    assert found == plain(fetched, wanted)
    assert found[1] == 5_008
    assert [record.offset for record in found[0]][-1] == 5_001


def test_two_codecs_and_none_in_one_fetch() -> None:
    kinds = ["none", "lz4", "none", "gzip", "zstd", "snappy", "none"]
    fetched = b"".join(batch(k * 5_000, MANY, codec=codec) for k, codec in enumerate(kinds))
    assert read(fetched, 0) == plain(fetched, 0)


def test_transactions_and_markers_within_the_interval() -> None:
    fetched = bytes(
        batch(0, PAIR, producer=1, attributes=TRANSACTIONAL)  # aborted
        + batch(2, PAIR, producer=2, attributes=TRANSACTIONAL)  # committed
        + batch(4, PAIR, producer=3)  # no transaction
        + marker(6, 2, abort=False)
        + marker(7, 1, abort=True)
        + batch(8, PAIR, producer=1, attributes=TRANSACTIONAL)  # committed after its abort
        + marker(10, 1, abort=False)
        + batch(11, PAIR, producer=2, attributes=TRANSACTIONAL)  # aborted, the marker is not fetched yet
        + marker(13, 4, abort=True)  # of a producer that wrote nothing here
    )
    aborted = [(2, 11), (1, 0)]
    found = read(fetched, 0, aborted)
    assert found == plain(fetched, 0, aborted)
    assert [record.offset for record in found[0]] == [2, 3, 4, 5, 8, 9]
    assert found[1] == 14
    uncommitted = read(fetched, 0, None, 0)
    assert uncommitted == plain(fetched, 0, None, 0)
    assert len(uncommitted[0]) == 10


def test_markers_alone_give_nothing_and_move_on() -> None:
    assert read(bytes(marker(7, 1, abort=True)), 5, [(1, 2)]) == ([], 8)


@pytest.mark.parametrize("bit", range(0, 8 * 80, 37))
def test_a_flipped_bit_is_found(bit: int) -> None:
    fetched = batch(0, PAIR) + batch(2, PAIR)
    place = 21 + bit // 8 % (len(fetched) // 2 - 21)
    fetched[place] ^= 1 << bit % 8
    source = records_of(raw_fetch.AsRaw(), bytes(fetched), 0)
    with pytest.raises(CorruptRecordException, match=r"CRC.*t\.gpu"):
        next(source)
    assert list(source) == []  # it has ended, and stands where it stood: the same is fetched again
    assert source.next_fetch_offset == 0
    unchecked = raw_fetch._partition_records(
        TP, raw_fetch.FetchedBytes(bytes(fetched)), None, 0, None, raw_fetch.AsRaw(), False, 1
    )
    try:
        list(unchecked)
    except CorruptRecordException as fault:
        assert "CRC" not in str(fault)  # noqa: PT017 - nothing may be raised, too


@pytest.mark.parametrize(
    ("at", "packed", "said"),
    [
        (23, struct.pack(">i", -2), "header of batch 1"),
        (57, struct.pack(">i", -1), "header of batch 1"),
        (57, struct.pack(">i", 2**31 - 1), "more records than it has room for"),
        (57, struct.pack(">i", 1), "records of batch 1"),
        (61, b"\x7f", "records of batch 1"),
        (22, b"\x01", "decompressed"),
        (22, b"\x02", "decompressed"),
        (22, b"\x03", "decompressed"),
        (22, b"\x04", "decompressed"),
    ],
)
def test_what_is_no_batch_though_its_checksum_is_right_is_refused(at: int, packed: bytes, said: str) -> None:
    bad = batch(2, PAIR)
    bad[at : at + len(packed)] = packed
    with pytest.raises(CorruptRecordException, match=said):
        read(bytes(batch(0, PAIR) + checked(bad)), 0)


def test_a_length_that_cannot_be_is_refused() -> None:
    bad = batch(2, PAIR)
    bad[8:12] = struct.pack(">i", 3)
    with pytest.raises(CorruptRecordException, match="length"):
        raw_batches.read_fetch(bytes(batch(0, PAIR) + bad), 0, None, check_crcs=True, read_committed=True)


def test_whatever_is_raised_waits_until_the_fetch_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(raw_fetch, "read_fetch", fails)
    source = records_of(raw_fetch.AsRaw(), bytes(batch(0, PAIR)), 0)  # in the task that fetches
    with pytest.raises(MemoryError, match="no room"):
        next(source)
    assert source.next_fetch_offset == 0


def test_a_codec_that_nobody_knows_is_named() -> None:
    bad = batch(0, PAIR)
    bad[22] |= 7
    with pytest.raises(UnsupportedCodecError, match="0x07"):
        read(bytes(checked(bad)), 0)


def test_a_control_batch_without_a_marker_is_refused() -> None:
    aborted = batch(0, PAIR, producer=1, attributes=TRANSACTIONAL)
    bad = batch(2, [Written(0, 1, b"", b"\x00")], producer=1, attributes=0x30)
    with pytest.raises(CorruptRecordException, match="without a marker"):
        read(bytes(aborted + bad), 0, [(1, 0)])


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_format_is_read_by_aiokafka_a_record_at_a_time(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 2**20)
    for i in range(3):
        builder.append(i, 1_000 + i, b"k", b"%d" % i)
    old = bytes(builder.build())
    before = fallbacks.counts[fallbacks.OLD_FORMAT]
    source = records_of(raw_fetch.AsRaw(), old, 1)
    found = list(source)
    assert [(each.offset, each.value) for each in found] == [(1, b"1"), (2, b"2")]
    assert source.next_fetch_offset == 3
    assert raw_fetch.only_raw(found) is None
    assert fallbacks.counts[fallbacks.OLD_FORMAT] == before + 1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_is_too_large_is_one_record_that_is_refused(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "decode", partial(codecs.decode, most_bytes=10_000))
    bomb = batch(2, [Written(at, 1_000, bytes(8_000)) for at in range(3)], codec=codec, appended_ms=5_000)
    fetched = bytes(batch(0, PAIR, codec=codec) + bomb + batch(5, PAIR, codec=codec))
    for wanted, offsets in ((0, [0, 1, 2, 5, 6]), (3, [3, 5, 6]), (5, [5, 6])):
        found, next_offset = read(fetched, wanted)
        assert ([record.offset for record in found], next_offset) == (offsets, 7)
        standing = [record for record in found if isinstance(record.value, Unread)]
        assert len(standing) == (wanted < 5)
        for stands in standing:
            assert (stands.value, stands.timestamp) == (b"", 5_000)
            refused = decode("gpu", stands.value, stands.headers, 2**50)
            assert isinstance(refused, Invalid)
            assert refused.reason == "unread_batch"


def test_a_batch_that_counts_more_records_than_anybody_sends_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raw_batches, "MOST_RECORDS", 1)
    found, next_offset = read(bytes(batch(0, PAIR, codec="zstd")), 0)
    assert ([type(record.value) for record in found], next_offset) == ([Unread], 2)


@pytest.mark.parametrize("bound", ["_SLICE_BYTES", "_SLICE_RECORDS"])
def test_a_fetch_is_decompressed_slice_by_slice(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_batches, bound, 3)
    fetched = bytes(b"".join(batch(2 * at, PAIR, codec="lz4") for at in range(5)))
    offsets, wanted = [], 0
    while wanted < 10:
        found, next_offset = read(fetched, wanted)
        assert next_offset > wanted
        offsets += [record.offset for record in found]
        wanted = next_offset
    assert offsets == list(range(10))


def test_what_was_decompressed_counts_until_nobody_holds_it() -> None:
    decoded = DecompressedBytes(100)
    asked = raw_fetch.AsRaw(decoded)
    fetched = bytes(b"".join(batch(2 * at, PAIR, codec="zstd") for at in range(5)))
    first = list(records_of(asked, fetched, 0))
    assert len(first[0]) == 10
    size_bytes = decoded.bytes
    assert size_bytes > 0
    part = first[0][3:5]
    first.clear()
    gc.collect()
    assert decoded.bytes == size_bytes, "a part of it holds all of it"
    decoded._limit_bytes = 1
    source = records_of(asked, fetched, 0)
    assert (len(next(source)), source.next_fetch_offset) == (2, 2), "while it is full a batch at a time"
    del part, source
    gc.collect()
    assert (decoded.bytes, decoded.is_full) == (0, False)


def test_the_name_of_a_header_that_is_no_text_stops_nobody() -> None:
    bad = batch(0, [Written(0, 1, b"v", headers=[("zz", b"1")])])
    place = bad.index(b"zz")
    bad[place : place + 2] = b"\xff\xfe"
    [record], _ = read(bytes(checked(bad)), 0)
    assert record.headers == (("\ufffd\ufffd", b"1"),)


@pytest.mark.parametrize("limit", [None, 1, 5])
def test_the_fetcher_takes_it_as_its_own_and_moves_the_position(limit: int | None) -> None:
    position = SimpleNamespace(paused=False, position=0)
    position.consumed_to = lambda offset: setattr(position, "position", offset)
    assignment = SimpleNamespace(active=True, state_value=lambda _: position)
    source = records_of(raw_fetch.AsRaw(), bytes(batch(0, PAIR) + marker(2, 1, abort=False)), 0)
    result = fetcher.FetchResult(TP, assignment=assignment, partition_records=source, backoff=0)
    [records] = result.getall(limit)
    assert [record.offset for record in records] == [0, 1]
    assert position.position == 3
    if result.has_more():  # it was asked for no more than this
        assert result.getall(limit) == []
        assert position.position == 3
    assert not result.has_more()


def test_only_the_fetcher_that_is_watched_reads_this_way() -> None:
    own = fetcher.MemoryRecords, fetcher.PartitionRecords, fetcher.Fetcher._proc_fetch_request
    watched, other = fetcher.Fetcher.__new__(fetcher.Fetcher), fetcher.Fetcher.__new__(fetcher.Fetcher)
    raw_fetch.watch(watched)
    names = cast("Any", watched._proc_fetch_request).__func__.__globals__
    assert names["MemoryRecords"] is raw_fetch.FetchedBytes
    assert cast("Any", other._proc_fetch_request).__func__ is own[2]
    assert (fetcher.MemoryRecords, fetcher.PartitionRecords, fetcher.Fetcher._proc_fetch_request) == own


def test_the_checksum_is_the_compiled_one_and_falls_back_to_aiokafka() -> None:
    data = bytes(range(256)) * 9
    assert raw_batches._checksum(data) == calc_crc32c(data)
