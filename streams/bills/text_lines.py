"""Reads the text of a bill within bounds: bytes, lines, and what one record may take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO, Final

from streams.bills.limits import BYTES_MAX, LINES_MAX
from streams.errors import WrongUseError

_LINE_MAX_BYTES: Final = 2**20
#: A quoted cell may go over several lines; a quote that nobody closes would go over all of them.
_LINES_PER_RECORD: Final = 1_000
_RECORD_MAX_BYTES: Final = _LINE_MAX_BYTES


class TextLines:
    """The lines of one file as text; `digest` is that of the unpacked content as soon as all are read."""

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        self.name = name
        self._stream = stream
        self._hash = hashlib.sha256()
        self.number = 0  # of the line that was read last
        self._begin = 1  # of the record that is being read
        self._bytes = 0
        self._begin_bytes = 0  # before that record
        self._last = ""  # the line that was read last

    def begin_record(self) -> int:
        """Say that the next line begins a record; return its number."""
        self._begin, self._begin_bytes = self.number + 1, self._bytes
        return self._begin

    @property
    def digest(self) -> str:
        """The SHA-256 of what was read."""
        return self._hash.hexdigest()

    @property
    def has_bare_returns(self) -> bool:
        """Whether the last line has carriage returns that no line feed follows."""
        return "\r" in self._last.removesuffix("\n").removesuffix("\r")

    @property
    def cut_off(self) -> str:
        """What to add to a fault of the last line: a file that is cut off rarely ends where a line does."""
        return "" if self._last.endswith("\n") else "; the file ends in this line: it seems to be cut off"

    def __iter__(self) -> Iterator[str]:
        """Yield every line.

        Raises:
            WrongUseError: It is too long, or no text; or the file is too large.
        """
        while data := self._stream.readline(_LINE_MAX_BYTES + 1):
            self.number += 1
            self._bytes += len(data)
            self._hash.update(data)
            if len(data) > _LINE_MAX_BYTES:
                raise self.refused(f"is longer than {_LINE_MAX_BYTES} bytes", self.number)
            if self.number - self._begin >= _LINES_PER_RECORD:
                raise self.refused(
                    f"begins a record of more than {_LINES_PER_RECORD} lines: a quote is not closed"
                )
            if self._bytes - self._begin_bytes > _RECORD_MAX_BYTES:
                raise self.refused(f"begins a record of more than {_RECORD_MAX_BYTES} bytes")
            if self._bytes > BYTES_MAX or self.number > LINES_MAX:
                raise WrongUseError(
                    f"{self.name}: more than {BYTES_MAX} bytes unpacked or {LINES_MAX} lines; "
                    "split it into several files and load them in one command"
                )
            try:
                text = data.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError as fault:
                raise self.refused(
                    f"is not UTF-8 (byte {fault.start + 1}); convert the file, or use Parquet", self.number
                ) from None
            if "\0" in text:
                raise self.refused("has a NUL character; is it UTF-16? convert it to UTF-8", self.number)
            self._last = text
            yield text

    def refused(self, fault: str, number: int | None = None) -> WrongUseError:
        """A refusal that names a line; without a number that in which the record begins."""
        line = self._begin if number is None else number
        return WrongUseError(f"{self.name} line {line}: {fault}; nothing of this file is loaded")
