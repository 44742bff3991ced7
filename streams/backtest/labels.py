"""Reads labels: which jobs had an incident, of which kind, from when to when.

A row that is not as expected is reported with its line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from schemas.escaping import visible
from streams.errors import WrongUseError

COLUMNS: Final = ("job_id", "kind", "from_ms", "until_ms")
#: No instant of a label is later: the last one that an event may name.
_LATEST_MS: Final = 10_413_791_999_999
_SHOWN_AT_MOST: Final = 80


class Label(NamedTuple):
    """An incident of a job: alerts that begin in [from_ms, until_ms) are about it."""

    job_id: str
    kind: str
    from_ms: int
    until_ms: int


def read_labels(content: bytes, path: Path) -> list[Label]:
    """The labels of a CSV file with a head that names `COLUMNS`, in any order; others are ignored.

    Raises:
        WrongUseError: The content is not such a file.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise WrongUseError(f"{path}: not UTF-8 at byte {fault.start}; write the labels as CSV") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise WrongUseError(
                f"{path}: no column {', '.join(missing)}; its first line must name {', '.join(COLUMNS)}"
            )
        labels = list(_labels(reader, path))
    except csv.Error as fault:
        raise WrongUseError(f"{path} after line {reader.line_num}: {fault}") from None
    if not labels:
        raise WrongUseError(f"{path}: has no label")
    return labels


def _labels(reader: csv.DictReader[str], path: Path) -> Iterator[Label]:
    seen: set[Label] = set()
    for row in reader:
        where = f"{path} line {reader.line_num}"
        for name in ("job_id", "kind"):
            if not row[name]:
                raise WrongUseError(f"{where}: {name} is empty")
        label = Label(
            row["job_id"], row["kind"], _instant(row, "from_ms", where), _instant(row, "until_ms", where)
        )
        if label.until_ms <= label.from_ms:
            raise WrongUseError(f"{where}: until_ms {label.until_ms} is not after from_ms {label.from_ms}")
        if label in seen:
            raise WrongUseError(f"{where}: this label is in the file twice")
        seen.add(label)
        yield label


def _instant(row: Mapping[str, str | None], name: str, where: str) -> int:
    text = row[name] or ""
    if (
        not (text.isascii() and text.isdecimal())
        or len(text) > len(str(_LATEST_MS))
        or int(text) > _LATEST_MS
    ):
        shown = visible(text[:_SHOWN_AT_MOST])
        raise WrongUseError(f"{where}: {name} is {shown!r}, expected ms since 1970 UTC such as 1780308000000")
    return int(text)
