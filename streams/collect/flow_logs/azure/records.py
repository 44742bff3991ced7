"""Reads Azure's flow logs: those of virtual networks, and those of security groups from version 2 on.

Azure writes the file of an hour anew each minute, with another record: a record is a part of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.durations import MINUTE_MS
from streams.collect.files.content import Content, json_records
from streams.collect.files.parts import FilePart, Findings, WithoutHeader
from streams.collect.flow_logs.flow import Flow, FlowEnd


class _FlowGroup(msgspec.Struct):
    """Flows of one rule."""

    tuples: list[str] = msgspec.field(name="flowTuples")


class _Acl(msgspec.Struct):
    groups: list[_FlowGroup] = msgspec.field(name="flowGroups")


class _FlowRecords(msgspec.Struct):
    flows: list[_Acl]


class _Interface(msgspec.Struct):
    tuples: list[str] = msgspec.field(name="flowTuples")
    mac: str = ""


class _SecurityRule(msgspec.Struct):
    flows: list[_Interface]


class _Properties(msgspec.Struct):
    flows: list[_SecurityRule]


class _Record(msgspec.Struct):
    mac: str = msgspec.field(name="macAddress", default="")
    of_network: _FlowRecords | None = msgspec.field(name="flowRecords", default=None)
    of_group: _Properties | None = msgspec.field(name="properties", default=None)


#: A tuple: time, two addresses, two ports, protocol, direction, state, encryption (of security groups: decision, state),
#: then packets and bytes that were sent and received. A flow is denied where the eighth is D, in both kinds.
_CELLS: Final = 13
_CELLS_WITHOUT_BYTES: Final = 8
_DIRECTION_AT, _STATE_AT, _SENT_AT, _RECEIVED_AT = 6, 7, 10, 12

_record: Final = msgspec.json.Decoder(_Record)


class AzureFlowRecords(WithoutHeader):
    """Records of both kinds of logs."""

    cloud = "azure"
    pieces_per_part = 1

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the records as JSON.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return json_records(content)

    def flows(self, part: FilePart, found: Findings) -> Iterator[tuple[int, Flow]]:
        """Yield both directions of each flow of a record."""
        for index, piece in enumerate(part.pieces):
            try:
                record = _record.decode(piece)
            except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                found.fault(part, index, "malformed", str(fault))
                continue
            if record.of_network is None and record.of_group is None:
                found.fault(part, index, "malformed", "a record without flowRecords or properties.flows")
                continue
            if next(_tuples(record), None) is None:
                found.account.free("no_traffic")
            for unit_ms, mac, text in _tuples(record):
                cells = text.split(",")
                if len(cells) == _CELLS_WITHOUT_BYTES:
                    found.account.free("no_bytes")  # version 1
                    continue
                try:
                    flows = _flows(unit_ms, mac, cells)
                except ValueError as fault:
                    found.fault(part, index, "malformed", str(fault))
                    continue
                if flows is None:
                    found.account.free("rejected")
                    continue
                if not flows:
                    found.account.free("no_traffic")
                for flow in flows:
                    yield index, flow


def _tuples(record: _Record) -> Iterator[tuple[int, str, str]]:
    """Yield the unit of each tuple's time, in ms, its interface and its text."""
    if record.of_network is not None:
        for acl in record.of_network.flows:
            for group in acl.groups:
                for text in group.tuples:
                    yield 1, record.mac, text
    if record.of_group is not None:
        for rule in record.of_group.flows:
            for interface in rule.flows:
                for text in interface.tuples:
                    yield 1000, interface.mac or record.mac, text


def _flows(unit_ms: int, mac: str, cells: list[str]) -> list[Flow] | None:
    """What went each way; None of a flow that was denied.

    Raises:
        ValueError: It is no such tuple.
    """
    if len(cells) != _CELLS or cells[_DIRECTION_AT] not in {"I", "O"}:
        raise ValueError(f"a tuple of {len(cells)} values, expected {_CELLS} with the direction I or O")
    if cells[_STATE_AT] == "D":
        return None
    end_ms = _number(cells[0]) * unit_ms
    source, destination = (FlowEnd((address,), address) for address in cells[1:3])
    ways = ("egress", "ingress") if cells[_DIRECTION_AT] == "O" else ("ingress", "egress")
    there = Flow(
        max(end_ms - MINUTE_MS, 0),
        end_ms,
        _number(cells[_SENT_AT] or "0"),
        source,
        destination,
        direction=ways[0],
        reporter=(mac,) if mac else (),
    )
    back = there._replace(
        bytes=_number(cells[_RECEIVED_AT] or "0"),
        source=destination,
        destination=source,
        direction=ways[1],
    )
    return [each for each in (there, back) if each.bytes]


def _number(text: str) -> int:
    if len(text) > 16 or not (text.isascii() and text.isdigit()):
        raise ValueError("a time or a count of bytes is no number")
    return int(text)
