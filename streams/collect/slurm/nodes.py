"""Reads which nodes there are, and makes events of those that come, drain and go. Pure functions.

Slurm does not say since when a node is there: its boot time is the machine's, and changes by a second from look to look, and
slurmd's start is that of its last update. So a node is paid from the poll that saw it first, at whole multiples of the interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import orjson

from schemas.escaping import visible
from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent
from streams.collect.slurm.node_fields import FieldsOfNodes
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import Count, States, Text, raw_entries, states_of, time_of
from streams.collect.slurm.tres import (
    gpu_type,
    gpus_of_node,
    named_type,
    node_gpu_milli,
    tres_counts,
    unknown_accelerators,
)
from streams.collect.values import event_text
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
    features: tuple[str, ...] = ()
    gres: str = ""  # its GPUs as `gres.conf` has them, whether or not Slurm counts them


class NodeListing(NamedTuple):
    """The nodes of one answer, and what is wrong with those that are left out."""

    nodes: list[NodeRecord]
    faults: list[str]


class _Node(msgspec.Struct):
    name: str
    state: States
    state_flags: list[str] = []  # up to 22.05 apart
    tres: Text = None
    gres: Text = None
    partitions: list[str] | None = None
    reason_changed_at: Count = None
    features: str | list[str] | None = None  # up to 22.05 a text


def listed_nodes(answer: bytes) -> NodeListing:
    """What `sinfo --json` (to 22.05) or `scontrol show nodes --json` (later) says.

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
                    tres_counts(event_text(node.tres)),
                    tuple(node.partitions or ()),
                    time_of(node.reason_changed_at),
                    tuple(
                        node.features.split(",") if isinstance(node.features, str) else node.features or ()
                    ),
                    event_text(node.gres),
                )
            )
        except (ValueError, RecursionError) as fault:
            faults.append(f"nodes: {visible(str(fault)[:300])}")
    return NodeListing(found, faults)


class NodeChanges(NamedTuple):
    """The events since the last poll; what was published last: node -> type and digest of the fields."""

    events: list[CollectedEvent]
    known: dict[str, str]


def node_events(
    nodes: Iterable[NodeRecord],
    known: Mapping[str, str] | None,
    at_s: int,
    first_s: int,
    options: Options,
    fields_of: FieldsOfNodes,
    account: Account,
) -> NodeChanges:
    """What is new since the last poll; `known` is None at the first one.

    A node is there since `at_s`, that of the poll that saw it first. Its events are not older than `first_s`.
    """
    events: list[CollectedEvent] = []
    now: dict[str, str] = {}
    for node in nodes:
        gpus = -(-node_gpu_milli(node.tres, options) // 1000)  # MIG instances need not fill a GPU
        if node.states & _OFF:
            account.free("off")
            continue
        odd = _odd(node, gpus, options)
        if odd is not None:
            account.not_understood(*odd)
        if not (gpus or options.include_cpu_only):
            if odd is None:
                account.free("no_gpu")
            continue
        before, _, as_published = (known or {}).get(node.name, "").partition(" ")
        own = fields_of.of(node.name, node.features, node.partitions)
        fields = {**own.fields, **_gpu_type(node, options), "gpu_count": gpus}
        state, digest = "draining" if "DRAIN" in node.states else "ready", _digest(fields)
        if not before:
            events.append(_event(node.name, "provisioned", at_s, fields, options))
        if own.fault and odd is None:
            account.not_understood("partitions_disagree", own.fault)
        elif odd is None:
            account.metered()
        if state != (before or "ready"):
            is_since = state == "draining" and node.reason_s and before
            since_s = max(node.reason_s, first_s) if is_since else at_s
            events.append(_event(node.name, state, since_s, fields, options))
        elif before and digest != as_published:
            events.append(_event(node.name, state, at_s, fields, options))
        now[node.name] = f"{state} {digest}"
    gone = sorted((known or {}).keys() - now.keys())
    return NodeChanges(events + [_event(name, "terminated", at_s, {}, options) for name in gone], now)


def _odd(node: NodeRecord, gpus: int, options: Options) -> tuple[str, str] | None:
    """What a node has and is not read as GPUs: the reason, and its words."""
    if unknown := unknown_accelerators(node.tres, options):
        return "unknown_gres", f"node {node.name} has {unknown}, and nothing says how many GPUs one is"
    if not gpus and gpus_of_node(node.gres):
        return "uncounted_gpus", f"node {node.name} has {node.gres[:100]}, which Slurm does not count"
    return None


def _digest(fields: Mapping[str, Any]) -> str:
    """What tells whether a node has other fields than those that were published of it."""
    return f"{crc32(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)):08x}"


def _gpu_type(node: NodeRecord, options: Options) -> dict[str, Any]:
    type_ = named_type(gpu_type(node.tres, options), options.gpu_types)
    return {"gpu_type": type_} if type_ else {}


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
