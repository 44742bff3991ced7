"""A reader of lines: each is a job that was queued, under an id that follows from the part and the line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streams.collect.collector import CollectedEvent
from streams.collect.files.collector import FileCollector
from streams.collect.files.content import Content, lines
from streams.collect.files.options import FileOptions
from streams.collect.files.parts import FilePart, Findings
from streams.topics import Topic


class PlainReader:
    """`#` begins a header."""

    def __init__(self, pieces_per_part: int) -> None:
        self.pieces_per_part = pieces_per_part

    def pieces(self, content: Content) -> Iterator[bytes]:
        return lines(content)

    def is_header(self, piece: bytes) -> bool:
        return piece.startswith(b"#")

    def read(self, part: FilePart, found: Findings) -> None:
        identity = part.identity
        for at, piece in enumerate(part.pieces):
            if piece == b"bad":
                found.fault(part, at, "malformed", "a bad line")
                continue
            value = {"id": f"{identity}.{at}", "line": piece.decode(), "header": part.header.decode()}
            found.events.append(CollectedEvent(Topic.JOBS, value))


def collector(*files: Path | str, lines_per_part: int = 3, **others: Any) -> FileCollector:
    """Return a collector with small parts and batches."""
    options = FileOptions(files=[str(file) for file in files], **others)
    return FileCollector("plain", options, lambda: PlainReader(lines_per_part), events_per_batch=4)
