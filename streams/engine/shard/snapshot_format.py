"""The format of snapshots, and who wrote one: what is known of a snapshot of any version before it is read."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import zstandard

from schemas.release import release
from streams.errors import TrainfareError

#: A snapshot of another format is refused; increment this with every incompatible change.
FORMAT: Final = 5
#: So many bytes of a stored snapshot have its first block, in which its format stands.
HEAD_BYTES: Final = 2**18
_HEAD: Final = re.compile(
    rb"(?:[\x80-\x8f]|\xde..|\xdf....)\xa6format(?:([\x00-\x7f])|\xcc(.))(?:\xaawritten_by([\xa0-\xbf]))?",
    re.DOTALL,
)
_FIXSTR: Final = 0xA0


class UnknownFormatError(TrainfareError, ValueError):
    """A snapshot was written by another version of the program."""


class SnapshotFormat(msgspec.Struct):
    """What a snapshot of any format says of itself; `written_by`: the release, which 0.1.0 did not say."""

    format: int
    written_by: str = ""
    shard: int = -1
    version: int = 0


class _ArchivedFormat(msgspec.Struct, array_like=True):
    """The beginning of an archived job of any format."""

    format: int
    version: int


def format_of(raw: bytes) -> SnapshotFormat:
    """What an unpacked snapshot says of itself.

    Raises:
        UnknownFormatError: The program does not support its format.
    """
    found = msgspec.msgpack.decode(raw, type=SnapshotFormat)
    if found.format != FORMAT:
        raise _refused(f"snapshot {found.version} of shard {found.shard}", found)
    return found


def check_archived(raw: bytes) -> None:
    """Check the format of an unpacked archived job.

    Raises:
        UnknownFormatError: The program does not support it.
    """
    found = msgspec.msgpack.decode(raw, type=_ArchivedFormat)
    if found.format != FORMAT:
        raise _refused(f"a job of the archive (version {found.version})", SnapshotFormat(found.format))


def format_in_head(head: bytes) -> SnapshotFormat | None:
    """What the first HEAD_BYTES of a stored snapshot say of its format and its writer; None: they are no snapshot's."""
    try:
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(head)
    except zstandard.ZstdError:
        return None
    match = _HEAD.match(raw)
    if match is None:
        return None
    size = match[3][0] - _FIXSTR if match[3] else 0
    writer = raw[match.end() : match.end() + size].decode("utf-8", "replace")
    return SnapshotFormat((match[1] or match[2])[0], writer)


def _refused(what: str, found: SnapshotFormat) -> UnknownFormatError:
    writer = f"trainfare {found.written_by}" if found.written_by else "another version"
    return UnknownFormatError(
        f"{what} has format {found.format}, written by {writer}; trainfare {release()} reads format {FORMAT}: run the version "
        "that wrote it, or meter the log again into an empty store under another group"
    )
