"""Reads which nodes there are, and makes events of those that come, drain and go. Pure functions.

Slurm does not say since when a node is there (its boot time changes by a second from look to look), so these times are
those of the polls, at whole multiples of the interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from schemas.escaping import visible
from streams.collect.collector import CollectedEvent
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import Count, States, Text, raw_entries, states_of, text_of, time_of
from streams.collect.slurm.tres import gpu_milli, gpu_type, tres_counts
from streams.topics import Topic

#: A node in one of these states costs nothing: a cloud's machine that is switched off, or one to come.
_OFF: Final = frozenset({"POWERED_DOWN", "FUTURE"})


class NodeRecord(NamedTuple):
    """A node; `reason_s` is when it was drained, 0 where Slurm does not say."""

    name: str
    states: frozenset[str]
    tres: Mapping[str, int]
    partitions: tuple[str, ...]
    reason_s: int


class NodeListing(NamedTuple):
    """The nodes of one answer, and what is wrong with those that are left out."""

    nodes: list[NodeRecord]
    faults: list[str]


class _Node(msgspec.Struct):
    name: str
    state: States
    state_flags: list[str] = []  # up to 22.05 apart
    tres: Text = None
    partitions: list[str] | None = None
    reason_changed_at: Count = None


def listed_nodes(answer: bytes) -> NodeListing:
    """Return what `sinfo --json` (to 22.05) or `scontrol show nodes --json` (later) says.

    Raises:
        SourceUnavailableError: It is not its JSON at all.
    """
    found: list[NodeRecord] = []
    faults: list[str] = []
    for raw in raw_entries(answer, "nodes", "nodes"):
        try:
            node = msgspec.json.decode(raw, type=_Node)
            if not 0 < len(node.name.encode()) <= 256:
                raise ValueError("a node without a name, or with one of more than 256 bytes")
            states = {state.upper() for state in (*states_of(node.state), *node.state_flags)}
            found.append(
                NodeRecord(
                    node.name,
                    frozenset(states),
                    tres_counts(text_of(node.tres)),
                    tuple(node.partitions or ()),
                    time_of(node.reason_changed_at),
                )
            )
        except (ValueError, RecursionError) as fault:
            faults.append(f"nodes: {visible(str(fault)[:300])}")
    return NodeListing(found, faults)


def node_events(
    nodes: Iterable[NodeRecord], known: Mapping[str, str] | None, at_s: int, first_s: int, options: Options
) -> tuple[list[CollectedEvent], dict[str, str]]:
    """Return the events since the last poll, and what is known now: node -> the type of its newest event.

    `known` is None at the first poll: the nodes are there since `first_s` then.
    """
    events: list[CollectedEvent] = []
    now: dict[str, str] = {}
    for node in nodes:
        before, fields = (known or {}).get(node.name, ""), _fields(node, options)
        if node.states & _OFF or not (fields["gpu_count"] or options.include_cpu_only):
            continue
        if not before:
            events.append(
                _event(node.name, "provisioned", first_s if known is None else at_s, fields, options)
            )
        state = "draining" if "DRAIN" in node.states else "ready"
        if state != (before or "ready"):
            since_s = max(node.reason_s, first_s) if state == "draining" and node.reason_s else at_s
            events.append(_event(node.name, state, since_s, fields, options))
        now[node.name] = state
    gone = sorted((known or {}).keys() - now.keys())
    return events + [_event(name, "terminated", at_s, {}, options) for name in gone], now


def _fields(node: NodeRecord, options: Options) -> dict[str, Any]:
    milli = gpu_milli(node.tres, options.shards_per_gpu, options.mps_per_gpu)
    type_ = gpu_type(node.tres)
    fields: dict[str, Any] = {**options.price_fields}
    for partition in node.partitions:
        fields.update(options.partition_price_fields.get(partition, {}))
    if type_:
        fields["gpu_type"] = options.gpu_types.get(type_, type_)
    return {**fields, "gpu_count": milli // 1000}


def _event(node: str, type_: str, at_s: int, fields: Mapping[str, Any], options: Options) -> CollectedEvent:
    value = {
        **fields,
        "id": f"{type_}.{at_s}",
        "source": options.source,
        "time_ms": at_s * 1000,
        "node": node,
        "type": type_,
    }
    return CollectedEvent(Topic.NODES, value)
