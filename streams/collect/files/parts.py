"""Parts of files: some pieces in a row, under an identity that follows from them alone.

A part is the same wherever and whenever its file is read; so are ids that are made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent
from streams.collect.files.content import Content, UnreadableError, opened
from streams.collect.files.listing import FoundFile
from streams.collect.files.progress import ReadFile

_PART_BYTES: Final = 16 * 2**20
_DIGEST_BYTES: Final = 16


class FilePart(NamedTuple):
    """Some pieces of a file; `first` is the number of the first one, from 1."""

    name: str
    first: int
    header: bytes  # empty: the file has none
    pieces: Sequence[bytes]
    called: str = "record"  # what a piece is

    def place(self, index: int) -> str:
        """Return where a piece stands: in which file, as which of its lines that are not blank, or of its records."""
        return f"{self.name} {self.called} {self.first + index}"

    @property
    def identity(self) -> str:
        """A digest of the pieces."""
        digest = _digest()
        for piece in (self.header, *self.pieces):
            _add(digest, piece)
        return digest.hexdigest()


class Findings:
    """What a reader makes of a part: events, and the account of its pieces, or of what these list."""

    def __init__(self) -> None:
        self.events: list[CollectedEvent] = []
        self.account = Account()
        self.unattributed_bytes: Counter[str] = Counter()

    def fault(self, part: FilePart, index: int, reason: str, detail: str) -> None:
        """Account for a piece that is not understood."""
        self.account.not_understood(reason, f"{part.place(index)}: {detail}")


class FileForm(Protocol):
    """How one kind of file is divided."""

    @property
    def pieces_per_part(self) -> int:
        """How many pieces a part has; 1 where a file may be written anew with more."""

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the pieces of a file: lines, or records.

        Raises:
            UnreadableError: The rest cannot be read.
        """

    def is_header(self, piece: bytes) -> bool:
        """Whether the first piece names the columns of the others."""


class WithoutHeader:
    """Part of a form in which each piece names its own fields, or needs no names."""

    def is_header(self, piece: bytes) -> bool:
        """Return False."""
        del piece
        return False


class FileReader(FileForm, Protocol):
    """What one kind of file holds."""

    def read(self, part: FilePart, found: Findings) -> None:
        """Add to what was found."""


def unread_parts(
    reader: FileReader, file: FoundFile, known: ReadFile, bytes_at_most: int
) -> Iterator[FilePart]:
    """Yield what was not read of a file; note in `known` each part that was gone on from.

    Raises:
        UnreadableError: The rest cannot be read.
    """
    for begin in (known.done, 0):
        with opened(file.path, bytes_at_most) as content:
            pieces, digest = reader.pieces(content), _digest()
            header = b""
            for index, piece in enumerate(islice(pieces, begin)):
                _add(digest, piece)
                if index == 0 and reader.is_header(piece):
                    header = piece
            if begin and digest.hexdigest() != known.digest:
                known.done, known.digest = 0, ""
                continue  # another file, under a name that is known
            done, fault = begin, None
            while fault is None:
                taken, fault = _taken(pieces, reader.pieces_per_part)
                if not taken:
                    break
                if not done and reader.is_header(taken[0]):
                    header, own = taken[0], taken[1:]
                else:
                    own = taken
                for piece in taken:
                    _add(digest, piece)
                first = done + len(taken) - len(own) + 1
                yield FilePart(Path(file.path).name, first, header, own, content.pieces_are)
                done += len(taken)
                known.done, known.digest = done, digest.hexdigest()
            if fault is not None:
                raise fault
            return


def _taken(pieces: Iterator[bytes], at_most: int) -> tuple[list[bytes], UnreadableError | None]:
    """The next pieces, and why there are no more, where that is a fault."""
    taken, size = [], 0
    try:
        for piece in islice(pieces, at_most):
            taken.append(piece)
            size += len(piece)
            if size >= _PART_BYTES:
                break
    except UnreadableError as fault:
        return taken, fault
    return taken, None


def _digest() -> blake2b:
    return blake2b(digest_size=_DIGEST_BYTES)


def _add(digest: blake2b, piece: bytes) -> None:
    digest.update(b"%d:" % len(piece))
    digest.update(piece)
