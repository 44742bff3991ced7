"""Cuts a stream of bytes into lines, within a limit."""

from __future__ import annotations

from collections.abc import Iterator


class Lines:
    """The lines of one stream; of one that is too long nothing is kept."""

    def __init__(self, bytes_at_most: int) -> None:
        self._at_most = bytes_at_most
        self._part = bytearray()
        self._is_skipping = False

    @property
    def is_inside(self) -> bool:
        """Whether the stream has stopped within a line."""
        return self._is_skipping or bool(self._part)

    def add(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that end in these bytes; None for each that is too long."""
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            self._extend(data, begin, end)
            if self._is_skipping:
                yield None
            elif self._part:
                yield bytes(self._part)
            self._part.clear()
            self._is_skipping = False
            begin = end + 1
        self._extend(data, begin, len(data))

    def _extend(self, data: bytes, begin: int, end: int) -> None:
        if self._is_skipping or len(self._part) + end - begin > self._at_most:
            self._is_skipping = True
            self._part.clear()
        else:
            self._part += data[begin:end]
