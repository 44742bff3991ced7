"""Makes events of nodes that come, drain and go. Pure functions; times are those of the API where it has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streams.collect.collector import CollectedEvent
from streams.collect.kubernetes.node_facts import NodeFacts
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.state import ClusterState, SeenNode
from streams.topics import Topic


def take_node(name: str, facts: NodeFacts, state: ClusterState, options: Options) -> Iterator[CollectedEvent]:
    """Take what is known of a node, and yield what is new of it.

    A node is known by name: one of another uid has taken the place of the former.
    """
    known = state.nodes.get(name)
    if known is not None and known.facts.uid != facts.uid:
        yield from remove_node(name, facts.created_s, state, options)
        known = None
    if known is None:
        known = state.nodes[name] = SeenNode(facts)
    known.facts = facts
    if not known.sent and (facts.gpu_milli or options.include_cpu_only):
        known.sent = "provisioned"
        at_s = max(facts.created_s, state.since_s)
        yield _event(name, facts, "provisioned", at_s, {**facts.fields, **_count(facts)}, options)
    if not known.sent:
        return
    is_draining = facts.draining_s is not None
    if is_draining != (known.sent == "draining"):
        known.sent = "draining" if is_draining else "ready"
        at_s = max(facts.draining_s or state.read_s, facts.created_s, state.since_s)
        yield _event(name, facts, known.sent, at_s, {}, options)


def remove_node(name: str, at_s: int, state: ClusterState, options: Options) -> Iterator[CollectedEvent]:
    """Forget a node, and yield its end; `at_s` 0: it is not known when it went."""
    known = state.nodes.pop(name, None)
    if known is not None and known.sent:
        ended_s = max(at_s or state.read_s, known.facts.created_s, state.since_s)
        yield _event(name, known.facts, "terminated", ended_s, {}, options)


def _count(facts: NodeFacts) -> dict[str, int | float]:
    milli = facts.gpu_milli
    return {"gpu_count": milli // 1000 if milli % 1000 == 0 else milli / 1000}


def _event(
    name: str, facts: NodeFacts, type_: str, at_s: int, fields: Mapping[str, Any], options: Options
) -> CollectedEvent:
    value = {
        **fields,
        "id": f"{facts.uid[:64]}.{type_}.{at_s}",
        "source": options.source,
        "time_ms": at_s * 1000,
        "node": name,
        "type": type_,
    }
    return CollectedEvent(Topic.NODES, value)
