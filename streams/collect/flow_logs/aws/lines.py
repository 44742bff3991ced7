"""Reads lines of AWS VPC flow logs, versions 2 to 5 and later ones: text, in the order that the header names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from streams.collect.files.content import Content, lines
from streams.collect.files.parts import FilePart, Findings
from streams.collect.flow_logs.aws.columns import DEFAULT, Columns
from streams.collect.flow_logs.flow import Flow, FlowEnd, place

#: What `traffic-path` says of egress. A private gateway (3), peering within the region (4) and a local gateway (6) leave
#: the zone open; a gateway endpoint (7) costs nothing, as traffic within a zone.
_WAYS: Final = {
    "3": "unclassified",
    "4": "unclassified",
    "5": "cross_region",
    "6": "unclassified",
    "7": "same_zone",
    "8": "internet",
}
_DIRECTIONS: Final = frozenset({"egress", "ingress"})


class AwsFlowLines:
    """Lines of one log; `form` is its format where files have no header."""

    cloud = "aws"
    pieces_per_part = 50_000

    def __init__(self, form: str = "") -> None:
        self._columns = Columns.of(form or DEFAULT)

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the lines.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return lines(content)

    def is_header(self, piece: bytes) -> bool:
        """Whether the line names fields: the first one has letters, where data have numbers."""
        return b"bytes" in piece.split() or b"srcaddr" in piece.split()

    def flows(self, part: FilePart, found: Findings) -> Iterator[tuple[int, Flow]]:
        """Yield the flows of some lines."""
        columns = self._columns
        if part.header:
            try:
                columns = Columns.of(part.header.decode("ascii", "replace"))
            except ValueError as fault:
                why = f"{part.name}: the header: {fault}"
                found.account.not_understood("malformed", why, len(part.pieces))
                return
        for index, line in enumerate(part.pieces):
            cells = line.decode("ascii", "replace").split()
            if len(cells) == columns.count + 1 and cells[0][:1] != "$" and "T" in cells[0]:
                del cells[0]  # the time that an export of CloudWatch Logs puts before a record
            if len(cells) != columns.count:
                found.fault(
                    part,
                    index,
                    "malformed",
                    f"{len(cells)} fields, expected {columns.count} as the format has",
                )
                continue
            if columns.cell(cells, "log-status") in {"NODATA", "SKIPDATA"}:
                if columns.cell(cells, "log-status") == "SKIPDATA":
                    interface = columns.cell(cells, "interface-id")
                    found.fault(part, index, "skipped_data", f"AWS left out flows of {interface} (SKIPDATA)")
                else:
                    found.account.free("no_traffic")
                continue
            if columns.cell(cells, "action") == "REJECT":
                found.account.free("rejected")
                continue
            try:
                yield index, _flow(columns, cells)
            except ValueError:
                found.fault(part, index, "malformed", "bytes, start and end are no numbers")


def _flow(columns: Columns, cells: list[str]) -> Flow:
    def cell(name: str) -> str:
        return columns.cell(cells, name)

    start, end, count = (_number(cell(name)) for name in ("start", "end", "bytes"))
    direction = cell("flow-direction")
    source, destination = _end(cell, "src"), _end(cell, "dst")
    way = _WAYS.get(cell("traffic-path"), "") if direction == "egress" else ""
    if way == "internet" and destination.is_cloud_service:
        way = "unclassified"  # an internet gateway leads to services of the same region, too
    return Flow(
        start * 1000,
        end * 1000,
        count,
        source,
        destination,
        direction=direction if direction in _DIRECTIONS else "",
        reporter=tuple(filter(None, (cell("interface-id"), cell("instance-id")))),
        place=place(cell("region"), cell("az-id")),
        way=way,
    )


def _end(cell: Callable[[str], str], side: str) -> FlowEnd:
    """An end; the address of its packets is more exact than that of the interface."""
    names = tuple(dict.fromkeys(filter(None, (cell(f"pkt-{side}addr"), cell(f"{side}addr")))))
    is_cloud_service = bool(cell(f"pkt-{side}-aws-service"))
    return FlowEnd(names, names[0] if names else "", is_cloud_service=is_cloud_service)


def _number(text: str) -> int:
    """A whole number, none of which has so many digits that reading it takes long."""
    if len(text) > 16 or not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)
