"""Reading the traces' CSV files and writing event logs, byte for byte the same each time."""

import csv
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from loadtest.trace_jobs import TimedEvent


class TraceError(Exception):
    """A file that is not what the command line says it is; the text says where and why."""


def read_rows(path: Path, columns: Iterable[str]) -> Iterator[dict[str, str]]:
    """The rows of a CSV file (plain or .gz) that must have `columns`."""
    wanted = set(columns)
    with _open_text(path) as text:
        reader = csv.DictReader(text)
        missing = sorted(wanted - set(reader.fieldnames or ()))
        if missing:
            raise TraceError(f"{path}: no column {', '.join(missing)}: is this the right file?")
        for row in reader:
            if None in row.values():
                raise TraceError(f"{path}, line {reader.line_num}: the row is cut short")
            yield row


def whole(row: dict[str, str], column: str, path: Path) -> int:
    """A column that must hold an integer, not negative; empty counts as 0."""
    text = row[column].strip() or "0"
    if not text.isdecimal():
        raise TraceError(f"{path}: `{column}`: got {text!r}, expected a whole number, in row {row}")
    return int(text)


def read_prices(path: Path, until_ms: int) -> list[dict[str, Any]]:
    """The price records of a file that are in force before `until_ms`, in the file's order.

    Later revisions are left out: a log of 2020 should not hold what nobody could know then.
    """
    prices = []
    with _open_text(path) as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                value = record.get("value", record)
                in_force = value["effective_ms"] < until_ms
            except (ValueError, KeyError, TypeError, AttributeError) as fault:
                raise TraceError(f"{path}, line {number}: not a price record ({fault!r})") from fault
            if in_force:
                prices.append(value)
    return prices


def write_log(path: Path, prices: Iterable[dict[str, Any]], events: Iterable[TimedEvent]) -> int:
    """Writes the prices first, then the events in order of time; returns the number of lines."""
    lines = [_line("prices", value) for value in prices]
    lines += [_line(event.topic, dict(event.value)) for event in sorted(events)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            # No name and no time in the header, so the same events give the same file.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                packed.writelines(lines)
        else:
            raw.writelines(lines)
    return len(lines)


def _line(topic: str, value: dict[str, Any]) -> bytes:
    return json.dumps({"topic": topic, "value": value}, separators=(",", ":")).encode() + b"\n"


def _open_text(path: Path) -> IO[str]:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError as fault:
        raise TraceError(f"{path}: {fault.strerror or fault}") from fault
