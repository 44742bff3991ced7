"""Makes `network` events of parts of flow logs; what a line says is left to the reader of each cloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from streams.collect.allocations import PastAllocations, stored_allocations
from streams.collect.files.content import Content
from streams.collect.files.parts import FileForm, FilePart, Findings
from streams.collect.flow_logs.amounts import BYTES_MAX, NetworkAmounts
from streams.collect.flow_logs.flow import Flow, Place
from streams.collect.flow_logs.networks import Networks
from streams.collect.flow_logs.options import FlowLogOptions
from streams.collect.flow_logs.owners import FlowOwners, Owned

_FIRST_MS: Final = 946_684_800_000
_LAST_MS: Final = 4_102_444_800_000
_LONGEST_MS: Final = 86_400_000


class FlowFormat(FileForm, Protocol):
    """What the flow log of one cloud looks like."""

    @property
    def cloud(self) -> str:
        """What events call the cloud."""

    def flows(self, part: FilePart, found: Findings) -> Iterator[tuple[int, Flow]]:
        """Yield the flows of a part, each with the index of its piece; say in `found` what is none."""


class FlowLogReader:
    """Reads flow logs of one cloud, by what the allocations say now."""

    def __init__(self, form: FlowFormat, options: FlowLogOptions, source: str) -> None:
        """Read the allocations.

        Raises:
            SourceUnavailableError: They cannot be read.
        """
        self._form = form
        self._source = source
        self._default = options.region
        self._networks = Networks(options.networks)
        path = options.allocations_file
        self._owners = FlowOwners(
            PastAllocations(() if path is None else stored_allocations(path)), options.node_aliases
        )

    @property
    def pieces_per_part(self) -> int:
        """How many pieces a part has."""
        return self._form.pieces_per_part

    def pieces(self, content: Content) -> Iterator[bytes]:
        """Yield the pieces of a file.

        Raises:
            UnreadableError: The rest cannot be read.
        """
        return self._form.pieces(content)

    def is_header(self, piece: bytes) -> bool:
        """Whether the first piece names the columns of the others."""
        return self._form.is_header(piece)

    def read(self, part: FilePart, found: Findings) -> None:
        """Add the events of a part."""
        amounts = NetworkAmounts(self._source, self._form.cloud)
        for index, flow in self._form.flows(part, found):
            if not (
                _FIRST_MS <= flow.start_ms <= flow.end_ms < _LAST_MS
                and flow.end_ms - flow.start_ms <= _LONGEST_MS
                and 0 <= flow.bytes <= BYTES_MAX
            ):
                found.fault(part, index, "out_of_range", "its times or bytes cannot be")
                continue
            owned = self._owners.of(flow)
            if isinstance(owned, str):
                said = f"{part.place(index)}: {flow.source.address} to {flow.destination.address}"
                self._owners.account(owned, said, found.account)
                found.unattributed_bytes[owned] += flow.bytes
            elif flow.bytes and not self._add(owned, flow, amounts):
                found.fault(part, index, "out_of_range", "more bytes than an event may have")
            else:
                found.account.metered()
        found.events += amounts.events(part.identity)

    def _add(self, owned: Owned, flow: Flow, amounts: NetworkAmounts) -> bool:
        own = self._own_place(owned, flow)
        path = self._networks.way(own, owned.other, flow.way)
        other = owned.other.place.region or self._networks.place_of(owned.other.address).region
        if path in {"same_zone", "cross_zone"}:
            other = own.region
        regions = (own.region, other) if owned.direction == "egress" else (other, own.region)
        return amounts.add(
            owned.holder, owned.direction, path, regions, (flow.start_ms, flow.end_ms), flow.bytes
        )

    def _own_place(self, owned: Owned, flow: Flow) -> Place:
        listed = self._networks.place_of(owned.own.address)
        return Place(
            flow.place.region or owned.own.place.region or listed.region or self._default,
            flow.place.zone or owned.own.place.zone or listed.zone,
        )
