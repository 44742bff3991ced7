"""The price fields of a node: its own first, then those of its partition. Pure functions.

A node is bought in one way, in however many partitions it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from schemas.escaping import visible
from streams.collect.slurm.options import Options

_NAME: Final = re.compile(r"PartitionName=(\S+)")
_SHOWN: Final = 5


class NodeFields(NamedTuple):
    """Price fields of a node; `fault`: which of its partitions name others, and whose are taken."""

    fields: Mapping[str, Any]
    fault: str = ""


def default_partition(answer: bytes) -> str:
    """The partition that `scontrol show partition --oneliner` marks as the default; empty: none is."""
    for line in answer.decode("utf-8", "replace").splitlines():
        match = _NAME.match(line.strip())
        if match and " Default=YES" in line:
            return match[1]
    return ""


class FieldsOfNodes:
    """The price fields of nodes, at one poll; Slurm is asked for its default partition only where it matters."""

    def __init__(self, options: Options, ask_default: Callable[[], str]) -> None:
        self._options = options
        self._ask_default = ask_default

    @cached_property
    def _default(self) -> str:
        return self._options.default_partition or self._ask_default()

    def of(self, name: str, features: Iterable[str], partitions: tuple[str, ...]) -> NodeFields:
        """The fields of a node: by its name, else its features, else its partition, else those of all jobs.

        A field in which its partitions differ is that of the default partition if the node is in it, else of the first.
        """
        options = self._options
        own: dict[str, Any] = {}
        for feature in features:
            own |= options.feature_price_fields.get(feature, {})
        own |= options.fields_by_node.get(name, {})
        by_partition = {
            each: {**options.price_fields, **options.partition_price_fields.get(each, {}), **own}
            for each in partitions
        }
        fields = {**options.price_fields, **own}
        if not by_partition:
            return NodeFields(fields)
        first = next(iter(by_partition.values()))
        if all(each == first for each in by_partition.values()):
            return NodeFields(first)
        taken = self._default if self._default in by_partition else partitions[0]
        return NodeFields(
            by_partition[taken], _fault(name, by_partition, taken, is_default=taken == self._default)
        )


def _fault(node: str, fields: Mapping[str, Mapping[str, Any]], taken: str, *, is_default: bool) -> str:
    differing = sorted(
        field
        for field in {name for each in fields.values() for name in each}
        if len({each.get(field) for each in fields.values()}) > 1
    )
    named = ", ".join(visible(each) for each in list(fields)[:_SHOWN]) + (
        ", ..." if len(fields) > _SHOWN else ""
    )
    why = "the default partition" if is_default else "its first partition"
    return (
        f"node {visible(node)}: its partitions {named} differ in {', '.join(differing)}; those of {visible(taken)}, {why},"
        " are taken: name its own in node_price_fields or feature_price_fields"
    )
