"""Rules by the hour in a chaos run: what makes them hold when its hour ends, and for whom they must have fired.

Not compared: rules about a job and the hours or jobs before it, for which the simulator is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import orjson

from tests.chaos.fleet import PLANTED, Event
from tests.oracle.ledger_rules import Costs, Subject, holding, price_jumps
from tests.oracle.model import HOUR_MS, MINUTE_MS, Json, Line, Tables
from tests.simulator.hour_check import costs_of, covers, silent_jobs, with_ms
from tests.simulator.sampled_jobs import sampled_jobs

COMPARED: Final = (
    "team_burn", "unallocated", "owner_coverage", "forgotten_node", "provisioning_burst", "price_jump",
    "unsampled_gpus",
)  # fmt: skip
RECORDS: Final[tuple[Json, ...]] = (
    {"name": "red", "rule": "team_burn", "team": "red", "thresholds": {"usd_per_hour": 0.5}},
    {"name": "blue", "rule": "team_burn", "team": "blue", "thresholds": {"usd_per_hour": 10**6}},
    {"name": "nodes", "rule": "forgotten_node", "thresholds": {"hours": 1}},
    {"name": "samples", "rule": "unsampled_gpus", "thresholds": {"cluster_ratio": 0.5}},
)
_SAMPLED_SEED: Final = 1


def of_the_hour(begun_ms: int) -> Iterator[Event]:
    """Events of some minutes before the hour ends; what they are about is in nobody else's events."""
    forgotten = {"node": "lone", "gpu_count": 8, "gpu_type": "H100", "purchase": "on_demand"}
    yield _event("nodes", "lone", 0, begun_ms - 2 * HOUR_MS, type="provisioned", **forgotten)
    for number in range(12):
        node = {"node": f"burst-{number}", "cluster": "c7", "instance_type": "p9"}
        yield _event("nodes", node["node"], number, begun_ms, type="provisioned", **node)
    for number, usd in enumerate(("1", "9")):
        price = {"sku": "jump", "component": "gpu", "per": "gpu_hour", "usd": usd, "cluster": "c8"}
        effective_ms = begun_ms + (number - 2) * MINUTE_MS
        yield _event("prices", f"jump@{number}", number, begun_ms, effective_ms=effective_ms, **price)
    for topic, key, _, event in sampled_jobs(random.Random(_SAMPLED_SEED), begun_ms):
        yield Event(topic, key or f"{event['sku']}@0", orjson.dumps(event))


def _event(topic: str, key: str, number: int, time_ms: int, **fields: Any) -> Event:
    about = {"source": "hourly", "id": f"{key}-{number}", "time_ms": time_ms}
    return Event(topic, key, orjson.dumps({**about, **fields}))


def hour_differences(
    alerts: Iterable[Json], tables: Tables, prices: Iterable[Line], hour_end_ms: int
) -> Iterator[str]:
    """One sentence per fault; `alerts`: all rows; `tables`: the oracle's."""
    rows = [with_ms(row) for row in alerts]
    costs = left_over(costs_of(tables, _said(prices)), rows, hour_end_ms)
    want = holding(costs, hour_end_ms, RECORDS)
    jumps = price_jumps(costs.revisions, hour_end_ms - HOUR_MS, hour_end_ms)
    want |= {(each.rule, Subject(each.kind, each.name)) for each in jumps}
    silent = silent_jobs(rows, hour_end_ms)
    want = {
        (rule, subject)
        for rule, subject in want
        if rule in COMPARED and not (rule == "unsampled_gpus" and subject.name in silent)
    }
    got = {
        (row["rule"], (row["subject_kind"], row["subject_name"]))
        for row in rows
        if row["rule"] in COMPARED and covers(row, hour_end_ms)
    }
    for rule, subject in sorted(got ^ want):
        said = "does not fire" if (rule, subject) in want else "fires"
        yield f"{rule} of {' '.join(subject)} {said} for the hour before {hour_end_ms}"


def left_over(costs: Costs, rows: Iterable[Json], end_ms: int) -> Costs:
    """Without the nodes of the hour that no job used and whose group `empty_group` told of: rules by the hour leave them to it.

    Whether it told depends on when a job's start was read, beside the end of its nodes' first quarter of an hour.
    """
    begin_ms = end_ms - HOUR_MS
    told = {
        row["subject_name"]
        for row in rows
        if row["rule"] == "empty_group"
        and row["started_ms"] <= end_ms
        and (row["resolved_ms"] is None or row["resolved_ms"] > begin_ms)
    }
    used = {use.node for use in costs.uses if use.hour_ms == begin_ms}
    nodes = [
        node
        for node in costs.nodes
        if node.hour_ms != begin_ms
        or node.node in used
        or f"{node.cluster}/{node.instance_type or node.gpu_type}" not in told
    ]
    return replace(costs, nodes=nodes)


def _said(lines: Iterable[Line]) -> Iterator[tuple[Line, int]]:
    """Each line, parsed, and when it was said."""
    for line in lines:
        if line.valid and isinstance(line.value, bytes) and PLANTED not in line.value:
            value = orjson.loads(line.value)
            yield Line(line.topic, value, partition=line.partition), value["time_ms"]
