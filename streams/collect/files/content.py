"""Reads a file piece by piece: plain or gzip, lines or JSON, within limits of size."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from streams.accounts.pages import next_page

LINE_MAX_BYTES: Final = 2**20
#: JSON that is one document is held in memory as a whole.
WHOLE_MAX_BYTES: Final = 256 * 2**20
_GZIP: Final = b"\x1f\x8b"
_PEEKED_BYTES: Final = 64
#: What stands in the place of an entry where an answer names its next page; then comes the name of that field.
ANOTHER_PAGE: Final = b"next page: "


class UnreadableError(Exception):
    """The rest of a file cannot be read; `reason` is one of a short list, for metrics.

    `may_pass`: the same content may be readable later, as where a right to read it is missing.
    """

    def __init__(self, reason: str, detail: str, *, may_pass: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.may_pass = may_pass


class Content:
    """The unpacked content of one file; of no more than so many bytes."""

    def __init__(self, stream: io.BufferedReader | gzip.GzipFile, bytes_at_most: int) -> None:
        self._stream = stream
        self._left = bytes_at_most
        self._at_most = bytes_at_most
        self.pieces_are = "record"  #: what people call the pieces that are read of it

    def line(self) -> bytes:
        """The next line, with its end; empty at the end of the file.

        Raises:
            UnreadableError: It is too long, or the file too large.
        """
        data = self._take(self._stream.readline, min(LINE_MAX_BYTES, self._left) + 1)
        if len(data) > LINE_MAX_BYTES:
            raise UnreadableError("oversize", f"a line is longer than {LINE_MAX_BYTES} bytes")
        return data

    def whole(self) -> bytes:
        """All that is left.

        Raises:
            UnreadableError: The file is too large.
        """
        most = min(WHOLE_MAX_BYTES, self._left)
        data = self._take(self._stream.read, most + 1)
        if len(data) > most:
            raise UnreadableError("oversize", f"more than {most} bytes of one JSON document")
        return data

    def begins_with(self, sign: bytes) -> bool:
        """Whether the first byte that is not blank, near the beginning, is this one."""
        return _checked(self._stream.peek, _PEEKED_BYTES).lstrip().startswith(sign)

    def _take(self, read: Callable[[int], bytes], at_most: int) -> bytes:
        data = _checked(read, at_most)
        self._left -= len(data)
        if self._left < 0:
            raise UnreadableError("oversize", f"more than {self._at_most} bytes unpacked; see max_file_mib")
        return data


@contextmanager
def opened(path: str, bytes_at_most: int) -> Iterator[Content]:
    """Open a file, and unpack it if it begins as gzip does.

    Raises:
        UnreadableError: It cannot be opened.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
        except OSError as fault:
            raise UnreadableError("unreadable", fault.strerror or str(fault), may_pass=True) from None
        packed = _checked(file.read, len(_GZIP)) == _GZIP
        file.seek(0)
        stream = stack.enter_context(gzip.GzipFile(fileobj=file)) if packed else file
        yield Content(stream, bytes_at_most)


def _checked(read: Callable[[int], bytes], at_most: int) -> bytes:
    try:
        return read(at_most)
    except OSError as fault:  # of gzip, too, without a number
        may_pass = fault.errno is not None
        raise UnreadableError("unreadable", fault.strerror or str(fault), may_pass=may_pass) from None
    except (EOFError, zlib.error) as fault:
        raise UnreadableError("unreadable", f"the compressed file is cut short or damaged: {fault}") from None


def lines(content: Content) -> Iterator[bytes]:
    """Yield the lines that are not blank, without their ends.

    Raises:
        UnreadableError: The rest cannot be read.
    """
    content.pieces_are = "line"
    while line := content.line():
        if stripped := line.strip():
            yield stripped


def json_lines(content: Content) -> Iterator[bytes]:
    """Yield JSON texts: one a line, or the entries of one array.

    Raises:
        UnreadableError: The rest cannot be read.
    """
    if content.begins_with(b"["):
        yield from _entries(content.whole(), list[msgspec.Raw])
    else:
        yield from lines(content)


class _Records(msgspec.Struct):
    records: list[msgspec.Raw]


def json_records(content: Content) -> Iterator[bytes]:
    """Yield the entries of `records`, a list in one JSON object.

    Raises:
        UnreadableError: The rest cannot be read, or is no such object.
    """
    yield from _entries(content.whole(), _Records)


def _entries(text: bytes, form: type[list[msgspec.Raw] | _Records]) -> Iterator[bytes]:
    try:
        found = msgspec.json.decode(text, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise UnreadableError("malformed", f"not the JSON that is expected: {fault}") from None
    for entry in found.records if isinstance(found, _Records) else found:
        yield bytes(entry)


def json_documents(text: bytes, lists: Collection[str]) -> Iterator[bytes]:
    """Yield JSON objects that stand one after the other, as a loop of commands prints them.

    Of an array its entries, and of an object with one of these lists the entries of it; then ANOTHER_PAGE if it names one.

    Raises:
        UnreadableError: It is no JSON, from some place on.
    """
    decoder = json.JSONDecoder(parse_constant=_no_number)
    try:
        rest, at = text.decode("utf-8-sig"), 0
        while at < len(rest):
            if rest[at] in " \t\r\n":
                at += 1
                continue
            found, at = decoder.raw_decode(rest, at)
            more = ""
            if isinstance(found, dict):
                more = next_page(found)
                found = next((found[name] for name in lists if isinstance(found.get(name), list)), [found])
            for entry in found if isinstance(found, list) else [found]:
                yield msgspec.json.encode(entry)
            if more:
                yield ANOTHER_PAGE + msgspec.json.encode(more)
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as fault:
        raise UnreadableError("malformed", f"not the JSON that is expected: {fault}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
