"""A collector of files: reads what was added to the files that patterns name, and makes events of it by a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from streams.collect.collector import EventBatch, PolledByOptions, Position
from streams.collect.files.content import UnreadableError
from streams.collect.files.listing import found_files
from streams.collect.files.options import FileOptions
from streams.collect.files.parts import FileReader, Findings, unread_parts
from streams.collect.files.progress import FileProgress

_EVENTS_PER_BATCH: Final = 1_000


class FileCollector(PolledByOptions):
    """Files of one kind. `open_reader` is called at each poll, for what may change in between."""

    def __init__(
        self,
        name: str,
        options: FileOptions,
        open_reader: Callable[[], FileReader],
        *,
        events_per_batch: int = _EVENTS_PER_BATCH,
    ) -> None:
        self.name = name
        self._options: FileOptions = options
        self._open_reader = open_reader
        self._events_per_batch = events_per_batch

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what the files have after a position, those that changed first before the others.

        Raises:
            SourceUnavailableError: A folder is away, or what the reader needs.
        """
        files = found_files(self._options, now_ms)
        progress = FileProgress.of(position, files, now_ms)
        reader = self._open_reader()
        found = Findings()
        for file in files:
            known = progress.of_file(file)
            if known.is_read(file):
                continue
            try:
                for part in unread_parts(reader, file, known, self._options.unpacked_bytes):
                    if len(found.events) >= self._events_per_batch:
                        yield _batch(found, progress)  # without this part: it is noted as read only now
                        found = Findings()
                    reader.read(part, found)
            except UnreadableError as fault:
                found.account.not_understood(fault.reason, f"{Path(file.path).name}: {fault}")
                if fault.may_pass:
                    continue
            known.size_bytes, known.modified_ns = file.size_bytes, file.modified_ns
        yield _batch(found, progress)


def _batch(found: Findings, progress: FileProgress) -> EventBatch:
    return EventBatch(found.events, progress.position(), found.account, found.unattributed_bytes)
