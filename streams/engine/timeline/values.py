"""The values in effect along an attempt: counts, nodes and price fields (docs/cost_model.md).

Each is in effect from the event that has it to the next one that does; a later attempt begins with the last ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.events import PRICE_FIELDS, JobEvent

#: No price field known yet.
NO_FIELDS: Final[tuple[str | None, ...]] = (None,) * len(PRICE_FIELDS)


class Values(NamedTuple):
    """Counts in thousandths; `nodes` as ((node, gpu_milli), ...) sorted by node, None if unknown."""

    gpu_milli: int = 0
    nodes: tuple[tuple[str, int], ...] | None = None
    instance_milli: int = 0
    cpu_milli: int = 0
    memory_milli: int = 0
    fields: tuple[str | None, ...] = NO_FIELDS


def named_fields(fields: tuple[str | None, ...], named: Mapping[str, str]) -> tuple[str | None, ...]:
    """The price fields with those of an event replaced."""
    if not named:
        return fields
    return tuple(named.get(field, held) for field, held in zip(PRICE_FIELDS, fields, strict=True))


def values_after(values: Values, event: JobEvent) -> Values:
    """The values from `event` on. A `gpu_count` without `nodes` keeps the nodes only if it is their sum."""
    gpu_milli, nodes = values.gpu_milli, values.nodes
    if event.nodes is not None:
        nodes = tuple(sorted(event.nodes.items()))
        gpu_milli = sum(event.nodes.values()) if event.gpu_milli is None else event.gpu_milli
    elif event.gpu_milli is not None:
        gpu_milli = event.gpu_milli
        if nodes is not None and sum(milli for _, milli in nodes) != gpu_milli:
            nodes = None
    return Values(
        gpu_milli,
        nodes,
        values.instance_milli if event.instance_milli is None else event.instance_milli,
        values.cpu_milli if event.cpu_milli is None else event.cpu_milli,
        values.memory_milli if event.memory_milli is None else event.memory_milli,
        named_fields(values.fields, event.fields),
    )
