"""A shard from its snapshots: where it goes on, what it refuses, what it puts right."""

from __future__ import annotations

import json

import msgspec
import pytest
import zstandard

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.tables import JOB_MINUTES
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard import snapshot_writer
from streams.engine.shard.shard import Shard
from streams.engine.shard.snapshot_format import FORMAT, UnknownFormatError
from streams.errors import TrainfareError
from tests.engine.test_shard import T0, batch, event, shard
from tests.oracle.cases import price


def test_restored_shard_goes_on_where_the_snapshot_ends() -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1)))
    points = [one.checkpoint(T0 + 60_000, 1, open_attempts=True)]
    one.fold(batch(event("scaled", 90_000, gpu_count=2), first=1))
    points.append(one.checkpoint(T0 + 120_000, 2, open_attempts=True))
    assert [point.parent for point in points] == [0, 1]
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [point.snapshot for point in points])
    assert (again.position.next, again.books, again.snapshots.version) == (one.position.next, one.books, 2)
    end = batch(event("completed", 150_000), first=2)
    for machine in (one, again):
        machine.fold(end)
    assert (
        one.checkpoint(T0, 3, open_attempts=True).tables[JOB_MINUTES]
        == again.checkpoint(T0, 3, open_attempts=True).tables[JOB_MINUTES]
    )


def test_snapshot_of_another_format_is_refused_with_what_to_do() -> None:
    point = shard().checkpoint(T0, 1, open_attempts=True)
    blob = msgspec.msgpack.decode(zstandard.decompress(point.snapshot))
    blob["format"] = FORMAT + 1
    changed = zstandard.compress(msgspec.msgpack.encode(blob))
    assert issubclass(UnknownFormatError, TrainfareError)  # said in words, without a traceback
    with pytest.raises(UnknownFormatError, match="run the version that wrote it"):
        Shard.restore(3, ShardSettings(), PriceBook.empty(), [changed])


def test_snapshot_of_another_shard_is_refused() -> None:
    point = shard().checkpoint(T0, 1, open_attempts=True)
    with pytest.raises(ValueError, match="a snapshot of shard 3 was handed to shard 4"):
        Shard.restore(4, ShardSettings(), PriceBook.empty(), [point.snapshot])


def test_rows_after_the_snapshot_are_read_back_as_the_snapshot_has_them() -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1)))
    known = one.checkpoint(T0 + 60_000, 1, open_attempts=True)
    one.fold(batch(event("suspended", 30_000, holds_gpus=True), first=1))
    phantom = one.checkpoint(T0 + 60_000, 2, open_attempts=True).tables[JOB_MINUTES]
    assert {row["phase"] for row in phantom.to_pylist()} == {"running", "suspended"}
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [known.snapshot])
    put_right = again.read_back(JOB_MINUTES, phantom, 3).to_pylist()
    assert {row["phase"]: row["quantity"] for row in put_right} == {"running": 60_000_000, "suspended": 0}
    assert {row["version"] for row in put_right} == {3}
    assert again.checkpoint(T0 + 60_000, 4, open_attempts=True).parent == 1


def test_row_that_was_zeroed_after_the_snapshot_is_read_back_to_what_the_snapshot_has() -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1), event("completed", 60_000)))
    known = one.checkpoint(T0, 1, open_attempts=True)
    one.fold(batch(event("failed", 0), first=2))
    zeroed = one.checkpoint(T0, 2, open_attempts=True).tables[JOB_MINUTES]
    assert zeroed["quantity"].to_pylist() == [0]
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [known.snapshot])
    assert again.read_back(JOB_MINUTES, zeroed, 3)["quantity"].to_pylist() == [60_000_000]


def test_a_snapshot_has_the_prices_that_came_since_the_one_before_and_a_chain_has_all() -> None:
    one, points = shard(), []
    book = one.prices.book
    one.fold(batch(*(event("started", job_id=f"j{k}", id=str(k), gpu_count=1) for k in range(20))))
    for number in range(30):
        news = [decode("prices", _value(f"sku-{k}", number), (), T0) for k in range(3)]
        book = book.with_events(event for event in news if isinstance(event, PriceEvent))
        one.set_prices(book)
        points.append(one.checkpoint(T0 + 60_000, number + 1, open_attempts=True))
    written = [snapshot_writer.unpack(point.snapshot) for point in points]
    assert [blob.prices is None for blob in written] == [False] + [True] * (len(written) - 1)
    assert sum(len(blob.more_prices) for blob in written) < 1_000  # all of all would be 1,395
    begin = next(k for k, blob in enumerate(written) if blob.version == points[-1].root)
    assert begin > 0
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [point.snapshot for point in points[begin:]])
    assert again.snapshots.book.events == book.events


def test_a_book_that_lacks_what_the_last_snapshot_has_is_written_whole() -> None:
    one = shard()
    events = [decode("prices", _value(sku, 0), (), T0) for sku in ("a", "b")]
    books = [
        PriceBook.empty().with_events([e for e in part if isinstance(e, PriceEvent)])
        for part in (events, events[:1])
    ]
    for number, book in enumerate(books, 1):
        one.set_prices(book)
        blob = snapshot_writer.unpack(one.checkpoint(T0, number, open_attempts=True).snapshot)
    assert blob.prices == books[1].events


def _value(sku: str, effective_ms: int) -> bytes:
    return json.dumps(price(sku, "2", effective_ms=effective_ms).value).encode()
