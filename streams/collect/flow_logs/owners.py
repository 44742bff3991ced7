"""Whose bytes they were: the job that held the node, or the pod, of one end at the time of a flow.

Bytes of nobody, or of one of several jobs, are counted and belong to none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from streams.accounts.account import Account
from streams.collect.allocations import JobHolder, PastAllocations
from streams.collect.flow_logs.flow import Flow, FlowEnd

_NAMED_BY_ADDRESS: Final = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)(?:\.|\Z)")

NO_NODE: Final = "no_node"
NO_JOB: Final = "no_job"
SEVERAL_JOBS: Final = "several_jobs"
NO_DIRECTION: Final = "no_direction"
NO_ALLOCATIONS: Final = "no_allocations"


class Owned(NamedTuple):
    """A job's share of a flow: the job, and its end."""

    holder: JobHolder
    direction: str
    own: FlowEnd
    other: FlowEnd


class FlowOwners:
    """Finds the holders of flows.

    `nodes`: name of an end -> node. What is no key there may be the name of a node itself; nodes called `ip-10-0-1-5` are
    known by their address.
    """

    def __init__(self, allocations: PastAllocations, nodes: Mapping[str, str]) -> None:
        self._allocations = allocations
        self._nodes = {name: name for name in allocations.nodes()}
        for name in allocations.nodes():
            if found := _NAMED_BY_ADDRESS.match(name):
                self._nodes.setdefault(".".join(found.groups()), name)
        self._nodes.update(nodes)

    def of(self, flow: Flow) -> Owned | str:
        """Return whose end of a flow reports it; else why nobody's is."""
        direction = flow.direction or self._direction(flow)
        if direction == "egress":
            own, other = flow.source, flow.destination
        elif direction == "ingress":
            own, other = flow.destination, flow.source
        else:
            return direction
        holders = self._holders(own, flow)
        if holders is None:
            return NO_NODE
        if len(holders) != 1:
            return SEVERAL_JOBS if holders else NO_JOB
        return Owned(next(iter(holders)), direction, own, other)

    def account(self, why_not: str, example: str, account: Account) -> None:
        """Account for an entry that is nobody's: free where it is known to be, not understood where a setting may tell whose."""
        if why_not in {SEVERAL_JOBS, NO_DIRECTION}:
            account.not_understood(why_not, example)
        elif not self._nodes:
            account.not_understood(NO_ALLOCATIONS, example)
        else:
            account.free(why_not)

    def _direction(self, flow: Flow) -> str:
        """The direction as seen by the interface that reports a flow; else a reason.

        Both ends report a flow, so that without the reporter's name a flow between two known nodes would count twice.
        """
        source, destination = (self._node(end.names, flow) for end in (flow.source, flow.destination))
        reporter = self._node(flow.reporter, flow)
        if source is None and destination is None:
            return NO_NODE if reporter is None else NO_DIRECTION
        if source == destination or reporter is None:
            if source is None or destination is None:
                return "ingress" if source is None else "egress"
            return NO_DIRECTION
        if reporter == source or (source is None and reporter != destination):
            return "egress"
        return "ingress" if reporter == destination or destination is None else NO_DIRECTION

    def _holders(self, own: FlowEnd, flow: Flow) -> set[JobHolder] | None:
        """Who held an end; None where nothing is known of it."""
        held, times = self._allocations, _times(flow)
        if own.pod and (found := held.of_pod(own.pod, *times)):
            return found
        for name in own.names:
            if held.has_address(name):
                return held.of_address(name, *times)
        node = self._node((*own.names, *flow.reporter), flow)
        return None if node is None else held.of_node(node, *times)

    def _node(self, names: Iterable[str], flow: Flow) -> str | None:
        """The node that one of these names stands for."""
        for name in names:
            node = self._allocations.node_of_address(name, *_times(flow)) or self._nodes.get(name)
            if node is not None:
                return node
        return None


def _times(flow: Flow) -> tuple[int, int]:
    return flow.start_ms, max(flow.end_ms, flow.start_ms + 1)
