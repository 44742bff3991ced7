"""Reads entries of Cloud Logging with VPC flow logs: a JSON object a line, or an array of them.

Both ends of a flow may report it: the source's entry is its egress, the destination's is its ingress.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from streams.collect.files.content import Content, json_lines
from streams.collect.files.parts import FilePart, Findings, WithoutHeader
from streams.collect.flow_logs.flow import Flow, FlowEnd, Place, place

_Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_GATEWAYS: Final = frozenset({"SRC_GATEWAY", "DEST_GATEWAY"})
_DIRECTIONS: Final = {"SRC": "egress", "DEST": "ingress"}


class _Connection(msgspec.Struct):
    src_ip: str
    dest_ip: str


class _Instance(msgspec.Struct):
    vm_name: str = ""
    region: str = ""
    zone: str = ""


class _Pod(msgspec.Struct):
    pod_name: str = ""
    pod_namespace: str = ""


class _Gke(msgspec.Struct):
    pod: _Pod | None = None


class _Payload(msgspec.Struct):
    connection: _Connection
    bytes_sent: str | int
    start_time: _Instant
    end_time: _Instant
    reporter: str = ""
    src_instance: _Instance | None = None
    dest_instance: _Instance | None = None
    src_gke_details: _Gke | None = None
    dest_gke_details: _Gke | None = None
    src_google_service: Any = None
    dest_google_service: Any = None
    src_location: Any = None  # of addresses outside of Google's networks
    dest_location: Any = None


class _LogEntry(msgspec.Struct):
    payload: _Payload = msgspec.field(name="jsonPayload")


_entry: Final = msgspec.json.Decoder(_LogEntry)


class GcpFlowEntries(WithoutHeader):
    """Entries of one log, of which a share was kept (`sample_ratio`)."""

    cloud = "gcp"
    pieces_per_part = 20_000

    def __init__(self, sample_ratio: float = 1.0) -> None:
        self._sample_ratio = sample_ratio

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the entries as JSON.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return json_lines(content)

    def flows(self, part: FilePart, found: Findings) -> Iterator[tuple[int, Flow]]:
        """Yield the flows of some entries."""
        for index, piece in enumerate(part.pieces):
            try:
                payload = _entry.decode(piece).payload
                count = _bytes(payload.bytes_sent)
            except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                found.fault(part, index, "malformed", str(fault))
                continue
            direction = _DIRECTIONS.get(payload.reporter)
            if direction is None and payload.reporter not in _GATEWAYS:
                said = f"the reporter is {payload.reporter[:40]!r}, expected SRC, DEST or their gateways"
                found.fault(part, index, "no_direction", said)
                continue
            if direction is None:
                found.account.free("gateway")  # an interconnect or a tunnel: no end of it is a node
                continue
            yield index, self._flow(payload, count, direction)

    def _flow(self, payload: _Payload, count: int, direction: str) -> Flow:
        source = _end(payload.connection.src_ip, payload.src_instance, payload.src_gke_details)
        destination = _end(payload.connection.dest_ip, payload.dest_instance, payload.dest_gke_details)
        source = source._replace(is_cloud_service=payload.src_google_service is not None)
        destination = destination._replace(is_cloud_service=payload.dest_google_service is not None)
        other, location = (
            (destination, payload.dest_location) if direction == "egress" else (source, payload.src_location)
        )
        return Flow(
            round(payload.start_time.timestamp() * 1000),
            round(payload.end_time.timestamp() * 1000),
            round(count / self._sample_ratio),
            source,
            destination,
            direction=direction,
            way="internet" if location is not None and not other.is_cloud_service else "",
        )


def _end(address: str, instance: _Instance | None, gke: _Gke | None) -> FlowEnd:
    name = "" if instance is None else instance.vm_name
    where = Place() if instance is None else place(instance.region, instance.zone)
    pod = None if gke is None else gke.pod
    named = "" if pod is None or not pod.pod_name else f"{pod.pod_namespace}/{pod.pod_name}"
    return FlowEnd(tuple(filter(None, (address, name))), address, where, named)


def _bytes(value: str | int) -> int:
    """A count: JSON has no integers of 64 bits, so Google writes it as text."""
    if isinstance(value, str) and not (len(value) <= 16 and value.isascii() and value.isdigit()):
        raise ValueError(f"bytes_sent is no number: {value[:40]!r}")
    return int(value)
