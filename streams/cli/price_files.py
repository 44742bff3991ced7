"""Reads price records from a file: JSON lines, a JSON array, or CSV; each is validated as the meter does.

It must not publish: a file is accepted as a whole, or refused with the line and field of its first fault.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.invalid import Invalid
from schemas.wire_types import MAX_NAME_BYTES
from streams.cli.files import read_bounded
from streams.errors import WrongUseError
from streams.topics import Topic

AHEAD_MS: Final = 300_000
_INTEGERS: Final = ("effective_ms", "gpus", "time_ms")
_SOURCE: Final = "trainfare prices load"


class PriceRecord(NamedTuple):
    """One valid price, in the form that is published."""

    line: int
    key: bytes
    value: bytes


def price_records(path: Path, now_ms: int) -> list[PriceRecord]:
    """Return the file's records; missing `id`, `source` and `time_ms` are generated.

    Raises:
        WrongUseError: The file is invalid.
    """
    found: list[PriceRecord] = []
    for line, record in _objects(path):
        sku, effective_ms = record.get("sku"), record.get("effective_ms")
        complete = {"id": _id(f"{sku}@{effective_ms}"), "source": _SOURCE, "time_ms": now_ms, **record}
        value = msgspec.json.encode(complete)
        event = decode(Topic.PRICES, value, (), now_ms + AHEAD_MS)
        if isinstance(event, Invalid):
            raise WrongUseError(f"{path} line {line}: {event.detail}; nothing was published")
        assert isinstance(event, PriceEvent)  # by its topic
        found.append(PriceRecord(line, f"{event.sku}@{event.effective_ms}".encode(), value))
    if not found:
        raise WrongUseError(
            f"{path}: no price records; expected JSON lines, a JSON array or CSV with a header"
        )
    return found


def _id(name: str) -> str:
    """Return the name, or a digest if it would be too long for an id."""
    given = name.encode("utf-8", "surrogatepass")
    return name if len(given) <= MAX_NAME_BYTES else hashlib.sha256(given).hexdigest()


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield records with the number of their first line."""
    content = read_bounded(path)
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    if suffixes and suffixes[-1].lower() == ".csv":
        yield from _of_csv(path, content)
    elif content.lstrip()[:1] == b"[":
        yield from _of_array(path, content)
    else:
        for number, text in enumerate(content.split(b"\n"), start=1):
            if text.strip():
                yield number, _object(path, number, text)


def _of_array(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        elements = msgspec.json.decode(content, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise WrongUseError(f"{path}: not a JSON array: {fault}") from None
    position = 0
    for element in elements:
        text = bytes(element)
        position = content.index(text, position)
        yield (
            content.count(b"\n", 0, position) + 1,
            _object(path, content.count(b"\n", 0, position) + 1, text),
        )
        position += len(text)


def _of_csv(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig")), strict=True)
        for row in reader:
            record: dict[str, object] = {}
            for name, cell in row.items():
                if name is None or isinstance(cell, list):
                    raise WrongUseError(f"{path} line {reader.line_num}: more cells than the header names")
                if cell:
                    record[name.strip()] = _cell(name.strip(), cell.strip())
            yield reader.line_num, record
    except (csv.Error, UnicodeDecodeError) as fault:
        raise WrongUseError(f"{path}: not CSV in UTF-8: {fault}") from None


def _cell(name: str, text: str) -> object:
    if name in _INTEGERS and text.lstrip("-").isdecimal():
        return int(text)
    return text


def _object(path: Path, line: int, text: bytes) -> dict[str, object]:
    """Parse a record; a line in the format of `publish` is accepted, too."""
    try:
        record = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise WrongUseError(f"{path} line {line}: not a JSON object: {fault}") from None
    value = record.get("value")
    if "topic" in record and isinstance(value, dict):
        if not str(record["topic"]).endswith(Topic.PRICES):
            raise WrongUseError(f"{path} line {line}: topic {record['topic']!r}, expected prices")
        return {str(name): each for name, each in value.items()}
    return record
