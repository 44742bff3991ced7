"""`trainfare collect json-files`: reads files of JSON lines of another form, and makes events of them by a map."""

from __future__ import annotations

from collections.abc import Iterator

from streams.collect.files.collector import FileCollector
from streams.collect.files.content import Content, json_lines
from streams.collect.files.parts import FilePart, Findings, WithoutHeader
from streams.collect.json_files.options import LINE, Options
from streams.collect.kafka.mapping import RecordMap
from streams.errors import WrongUseError


class MappedLines(WithoutHeader):
    """Lines and what a map makes of them, by what the allocations say now."""

    pieces_per_part = 1_000

    def __init__(self, options: Options, rules: RecordMap) -> None:
        """Read the allocations.

        Raises:
            SourceUnavailableError: They cannot be read.
        """
        self._rules = rules
        self._held = options.gpu_allocations()

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the records: one a line, or the entries of one array.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return json_lines(content)

    def read(self, part: FilePart, found: Findings) -> None:
        """Add the events of a part; what a rule cannot make of a line is said."""
        for index, line in enumerate(part.pieces):
            events, faults = self._rules.of_record(LINE, line, self._held)
            found.events += events
            if faults:
                found.fault(part, index, faults[0].reason, str(faults[0]))
            elif events:
                found.account.metered()
            else:
                found.account.free("no_record")


def open_collector(options: Options) -> FileCollector:
    """The collector.

    Raises:
        WrongUseError: No files are named.
    """
    if not options.files:
        raise WrongUseError("name the files: files = [...] in the table [json-files], or --files")
    rules = RecordMap(options)
    return FileCollector("json-files", options, lambda: MappedLines(options, rules))
