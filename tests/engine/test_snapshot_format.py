"""What is known of a snapshot of any version before it is read: its format, and who wrote it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import zstandard

from schemas.release import release
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.engine.shard.snapshot_format import (
    FORMAT,
    HEAD_BYTES,
    UnknownFormatError,
    check_archived,
    format_in_head,
)
from tests.engine.test_shard import T0, batch, event, shard
from tests.golden.snapshots.test_kept import KEPT


def of_later(data: bytes) -> bytes:
    """The snapshot as a later version may write it."""
    blob = msgspec.msgpack.decode(zstandard.decompress(data))
    blob |= {"format": FORMAT + 1, "written_by": "9.8.7"}
    return zstandard.compress(msgspec.msgpack.encode(blob))


def stored() -> bytes:
    one = shard()
    for number in range(400):
        one.fold(batch(event("started", job_id=f"job-{number}", gpu_count=1), first=number))
    return one.checkpoint(T0, 1, open_attempts=True).snapshot


def test_the_beginning_says_the_format_and_the_release_that_wrote_it() -> None:
    data = stored()
    found = format_in_head(data)
    assert found is not None
    assert (found.format, found.written_by) == (FORMAT, release())
    cut = zstandard.compress(zstandard.decompress(data) + bytes(range(256)) * 4_000)[:HEAD_BYTES]
    assert format_in_head(cut) == found, "a snapshot is larger than what is looked at"
    later = format_in_head(of_later(data))
    assert later is not None
    assert (later.format, later.written_by) == (FORMAT + 1, "9.8.7")


@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_snapshots_of_former_releases_are_known(version: Path) -> None:
    found = format_in_head(next(version.glob("snapshot-*.bin")).read_bytes())
    assert found is not None
    assert found.format == FORMAT


@pytest.mark.parametrize(
    "data", [b"", b"no snapshot", zstandard.compress(b"nor this"), zstandard.compress(b"\x81\xa6formaX\x05")]
)
def test_what_is_no_snapshot_is_none(data: bytes) -> None:
    assert format_in_head(data) is None


def test_one_of_a_later_version_is_refused_with_what_where_and_by_whom() -> None:
    point = shard().checkpoint(T0, 1, open_attempts=True)
    with pytest.raises(
        UnknownFormatError,
        match=rf"snapshot 1 of shard 3 has format {FORMAT + 1}, written by trainfare 9.8.7; trainfare {release()} reads format",
    ):
        Shard.restore(3, ShardSettings(), PriceBook.empty(), [of_later(point.snapshot)])


def test_an_archived_job_of_a_later_version_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(UnknownFormatError, match=r"a job of the archive \(version 7\) has format 6"):
        check_archived(msgspec.msgpack.encode([FORMAT + 1, 7, "what nobody knows yet"]))
