"""What the nodes cost, priced "as its GPUs would be, by the `gpu` SKUs"."""

from __future__ import annotations

from collections import Counter

from tests.oracle.model import (
    HOUR_MS,
    LARGEST_COST_NANO,
    NODE_TYPES,
    PRICE_FIELDS,
    Json,
    NodeHourRow,
    NodeKey,
    NodeRow,
    context_of,
    cost_nano,
)
from tests.oracle.prices import UNPRICED, PriceBook, Revision
from tests.oracle.rows import minutes
from tests.oracle.timeline import Segment, Values


def paid_time(events: list[Json], as_of_ms: int) -> list[Segment]:
    """Time "from `provisioned` (or its first event) to `terminated`; provisioned again, again"."""
    ordered = sorted(events, key=lambda e: (e["time_ms"], NODE_TYPES.index(e["type"]), e["source"], e["id"]))
    values, paid, terminated = Values(), False, False
    service_at = 0  # where in `segments` the present time of service begins
    segments: list[Segment] = []
    for index, event in enumerate(ordered):
        if terminated and event["type"] != "provisioned":
            pass  # While terminated every event but `provisioned` changes nothing, its values neither.
        else:
            if terminated:  # provisioned again: what was terminated has ended, and no clock cuts it
                service_at = len(segments)
            values = values.after(event)
            terminated = event["type"] == "terminated"
            paid = not terminated
        until_ms = ordered[index + 1]["time_ms"] if index + 1 < len(ordered) else as_of_ms
        if paid and event["time_ms"] < until_ms:
            segments.append(Segment(event["time_ms"], until_ms, "", values))
    if not terminated:  # "Attempts and nodes that have not ended are paid up to the meter's clock"
        present = [s._replace(end_ms=min(s.end_ms, as_of_ms)) for s in segments[service_at:]]
        segments = segments[:service_at] + present
    return [s for s in segments if s.start_ms < s.end_ms]


def starting_time(events: list[Json]) -> list[tuple[int, int]]:
    """Time "from `provisioned` to `ready`", if a time of service begins so and nothing else came between."""
    ordered = sorted(events, key=lambda e: (e["time_ms"], NODE_TYPES.index(e["type"]), e["source"], e["id"]))
    found: list[tuple[int, int]] = []
    began_ms, in_service = None, False
    for event in ordered:
        kind = event["type"]
        if kind == "provisioned":
            began_ms = began_ms if in_service else event["time_ms"]
        elif kind == "ready" and began_ms is not None:
            found.append((began_ms, event["time_ms"]))
        if kind != "provisioned":
            began_ms = None
        # While terminated every event but `provisioned` changes nothing.
        in_service = kind == "provisioned" or (kind != "terminated" and (in_service or event is ordered[0]))
    return found


def node_rows(node: str, events: list[Json], book: PriceBook, as_of_ms: int) -> dict[NodeKey, NodeRow]:
    """The rows of one node."""
    quantities: Counter[NodeKey] = Counter()
    prices: dict[NodeKey, Revision] = {}
    for segment in paid_time(events, as_of_ms):
        context = context_of(segment.values.fields)  # a node has no team and no project
        # "One without ... is paid as one instance"; "where not even one of vcpu_hour or memory_gib_hour matches it, unpriced".
        component, unit, per_ms = ("gpu", "gpu_milli_ms", segment.values.gpu_milli)
        if not per_ms:
            component, unit, per_ms = ("compute", "instance_milli_ms", 1000)
        for step_start_ms, step_end_ms in book.steps(segment.start_ms, segment.end_ms):
            price = book.winner(component, unit, context, step_start_ms)
            units = ("instance_milli_ms", "cpu_milli_ms", "memory_gib_milli_ms")
            is_compute = price is None and component == "compute"
            if is_compute and any(book.winner("compute", each, context, step_start_ms) for each in units):
                continue
            price = price or UNPRICED
            for minute, start_ms, end_ms in minutes(step_start_ms, step_end_ms):
                key = NodeKey(minute, node, price.sku, price.effective_ms, unit)
                quantities[key] += per_ms * (end_ms - start_ms)
                prices[key] = price
    return {
        key: NodeRow(quantity, cost_nano(quantity, prices[key].price_nano, prices[key].divisor))
        for key, quantity in quantities.items()
        if quantity
    }


def node_hour_rows(
    events: list[Json], rows: dict[NodeKey, NodeRow], as_of_ms: int
) -> dict[tuple[str, int], NodeHourRow]:
    """The hours of one node: its rows summed, its time of service, and what it was last."""
    found: dict[tuple[str, int], NodeHourRow] = {}
    empty = NodeHourRow((), 0, 0, 0, 0, 0)
    starting = starting_time(events)
    for segment in paid_time(events, as_of_ms):
        start_ms = segment.start_ms
        while start_ms < segment.end_ms:
            hour = start_ms // HOUR_MS
            until_ms = min(segment.end_ms, (hour + 1) * HOUR_MS)
            so_far = found.get((events[0]["node"], hour), empty)
            values = segment.values
            found[events[0]["node"], hour] = so_far._replace(
                dimensions=(*(values.fields.get(name) or "" for name in PRICE_FIELDS), values.team),
                paid_ms=so_far.paid_ms + until_ms - start_ms,
                starting_ms=so_far.starting_ms
                + sum(max(0, min(until_ms, b) - max(start_ms, a)) for a, b in starting),
            )
            start_ms = until_ms
    for key, row in rows.items():
        so_far = found[key.node, key.minute // 60]
        gpu = row.quantity if key.unit == "gpu_milli_ms" else 0
        found[key.node, key.minute // 60] = so_far._replace(
            gpu_milli_ms=so_far.gpu_milli_ms + gpu,
            unpriced_gpu_milli_ms=so_far.unpriced_gpu_milli_ms + (0 if key.sku else gpu),
            cost_nano=min(so_far.cost_nano + row.cost_nano, LARGEST_COST_NANO),
        )
    return found
