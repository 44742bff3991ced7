"""A shard from its snapshots: where it goes on, what it refuses, what it puts right."""

from __future__ import annotations

import msgspec
import pytest
import zstandard

from schemas.tables import JOB_MINUTES
from streams.errors import TrainfareError
from streams.pipeline import snapshot
from streams.pipeline.settings import ShardSettings
from streams.pipeline.shard import Shard
from streams.pipeline.snapshot import UnknownFormatError
from streams.pricing.book import PriceBook
from tests.pipeline.test_shard import T0, batch, event, shard


def test_restored_shard_goes_on_where_the_snapshot_ends() -> None:
    one = shard()
    one.fold(batch(event("started", gpu_count=1)))
    points = [one.checkpoint(T0 + 60_000, 1, open_attempts=True)]
    one.fold(batch(event("scaled", 90_000, gpu_count=2), first=1))
    points.append(one.checkpoint(T0 + 120_000, 2, open_attempts=True))
    assert [point.parent for point in points] == [0, 1]
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [point.snapshot for point in points])
    assert (again.next, again.books, again.version) == (one.next, one.books, 2)
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
    blob["format"] = snapshot.FORMAT + 1
    changed = zstandard.compress(msgspec.msgpack.encode(blob))
    assert issubclass(UnknownFormatError, TrainfareError)  # said in words, without a traceback
    with pytest.raises(UnknownFormatError, match="run the program that wrote it"):
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
