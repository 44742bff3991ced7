"""Reads price lists in JSON: one record a line, or an array of records."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streams.errors import WrongUseError
from streams.prices.offers import SourceRow
from streams.prices.source import PriceList
from streams.topics import Topic


def of_lines(given: PriceList) -> Iterator[SourceRow]:
    """Yield the record of each line that is not blank.

    Raises:
        WrongUseError: A line is no JSON object, or of another topic.
    """
    for number, text in enumerate(given.content.split(b"\n"), start=1):
        if text.strip():
            yield SourceRow(number, _object(given, number, text))


def of_array(given: PriceList) -> Iterator[SourceRow]:
    """Yield the records of an array, each with the number of its first line.

    Raises:
        WrongUseError: It is no JSON array of objects.
    """
    try:
        elements = msgspec.json.decode(given.content, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise WrongUseError(f"{given.name}: not a JSON array: {fault}; nothing was published") from None
    position, line = 0, 1
    for element in elements:
        text = bytes(element)
        found = given.content.index(text, position)
        line += given.content.count(b"\n", position, found)
        yield SourceRow(line, _object(given, line, text))
        position = found + len(text)
        line += text.count(b"\n")


def _object(given: PriceList, line: int, text: bytes) -> dict[str, object]:
    """Parse a record; a line in the format of `publish` is accepted, too."""
    try:
        record = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise given.fault(line, f"not a JSON object: {fault}") from None
    value = record.get("value")
    if "topic" in record and isinstance(value, dict):
        if not str(record["topic"]).endswith(Topic.PRICES):
            raise given.fault(line, f"topic {record['topic']!r}, expected prices")
        return {str(name): each for name, each in value.items()}
    return record
