"""Reads a bill of one JSON object a line, as BigQuery exports a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

import msgspec

from streams.bills.lines import BillLine
from streams.bills.reading import Reading
from streams.bills.text_lines import TextLines

#: Numbers stay as they are written: a float of Python would have other digits.
_DECODER: Final = msgspec.json.Decoder(dict[str, object], float_hook=str)


class JsonLines:
    """The lines of one file; `digest` is that of the unpacked content as soon as all are read."""

    def __init__(self, name: str, stream: IO[bytes], reading: Reading) -> None:
        self._texts = TextLines(name, stream)
        self._reading = reading

    @property
    def digest(self) -> str:
        """The SHA-256 of what was read."""
        return self._texts.digest

    def __iter__(self) -> Iterator[BillLine]:
        """Yield every line, checked.

        Raises:
            WrongUseError: A line is wrong; it is named.
        """
        texts = self._texts
        texts.begin_record()
        for text in texts:
            if text.strip():
                try:
                    record = _DECODER.decode(text)
                except (msgspec.MsgspecError, RecursionError):
                    raise texts.refused(
                        f"is no JSON object; expected one object a line{texts.cut_off}"
                    ) from None
                place = f"line {texts.number}"
                yield from self._reading.lines_of_record(texts.name, texts.number, place, record)
            texts.begin_record()
