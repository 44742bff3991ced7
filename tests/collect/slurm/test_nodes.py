"""Nodes: what two versions of Slurm said of theirs, and what the meter pays for idle ones."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

import pytest

from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm.nodes import NodeRecord, listed_nodes, node_events
from streams.collect.slurm.options import Options
from tests.collect.slurm.test_recorded import PRICE
from tests.collect.slurm.world import recorded_nodes
from tests.collect.world import Log
from tests.harness import meter
from tests.oracle.model import Line

OPTIONS: Final = Options(gpu_types={"h100": "H100"}, price_fields={"cluster": "quick"})
T0_S: Final = 1_795_622_400


def nodes(version: str, at: int) -> list[NodeRecord]:
    listing = listed_nodes(json.dumps(recorded_nodes(version)[at]).encode())
    assert not listing.faults
    return listing.nodes


def told(events: list[Any]) -> list[tuple[str, str, int]]:
    return [(event.value["node"], event.value["type"], event.value["time_ms"] // 1000) for event in events]


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_nodes_are_there_since_the_first_poll_and_tell_when_they_drain(version: str) -> None:
    first, known = node_events(nodes(version, 0), None, T0_S + 90, T0_S, OPTIONS)
    assert told(first) == [("n1", "provisioned", T0_S), ("n2", "provisioned", T0_S)]
    assert {**first[0].value, "id": "", "time_ms": 0} == {
        "id": "",
        "source": "slurm",
        "time_ms": 0,
        "node": "n1",
        "type": "provisioned",
        "cluster": "quick",
        "gpu_type": "H100",
        "gpu_count": 4,
    }
    drained = nodes(version, 1)
    second, known = node_events(drained, known, T0_S + 105, T0_S, OPTIONS)
    assert told(second) == [("n2", "draining", drained[1].reason_s)]
    assert node_events(drained, known, T0_S + 120, T0_S, OPTIONS) == ([], known)


def test_a_node_that_is_back_is_ready_and_one_that_is_down_is_still_paid() -> None:
    _, known = node_events(nodes("22.05", 1), None, T0_S, T0_S, OPTIONS)
    events, known = node_events(nodes("22.05", 2), known, T0_S + 15, T0_S, OPTIONS)
    assert told(events) == [("n2", "ready", T0_S + 15)]
    assert known == {"n1": "ready", "n2": "ready"}


@pytest.mark.parametrize("state", ["POWERED_DOWN", "FUTURE"])
def test_a_machine_that_is_switched_off_is_not_paid_until_it_is_back(state: str) -> None:
    both = nodes("22.05", 0)
    _, known = node_events(both, None, T0_S, T0_S, OPTIONS)
    off = [both[0], both[1]._replace(states=both[1].states | {state})]
    events, known = node_events(off, known, T0_S + 15, T0_S, OPTIONS)
    assert told(events) == [("n2", "terminated", T0_S + 15)]
    events, known = node_events(both, known, T0_S + 3600, T0_S, OPTIONS)
    assert told(events) == [("n2", "provisioned", T0_S + 3600)]


def test_what_no_job_holds_is_idle_cost() -> None:
    first, known = node_events(nodes("22.05", 0), None, T0_S, T0_S, OPTIONS)
    gone, _ = node_events(nodes("22.05", 0)[:1], known, T0_S + 600, T0_S, OPTIONS)
    log = Log()
    log.publish([*first, *gone])
    assert not log.refused()
    tables = meter(
        [PRICE, *(Line(topic, dict(value)) for topic, value in log.events)], as_of_ms=(T0_S + 900) * 1000
    )
    paid = dict.fromkeys(("n1", "n2"), 0)
    for key, row in tables.nodes.items():
        paid[key.node] += row.cost_nano
    assert paid == {"n1": 900 * 4 * 1_000_000, "n2": 600 * 4 * 1_000_000}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", 7),
        ("name", "n" * 300),
        ("state", None),
        ("tres", "cpu"),
        ("reason_changed_at", "now"),
    ],
)
def test_a_node_that_cannot_be_read_is_left_out_and_said(field: str, value: Any) -> None:
    document = copy.deepcopy(recorded_nodes("24.11")[0])
    document["nodes"][0][field] = value
    listing = listed_nodes(json.dumps(document).encode())
    assert [node.name for node in listing.nodes] == ["n2"]
    assert len(listing.faults) == 1


def test_what_sinfo_of_later_versions_prints_is_refused_in_one_line() -> None:
    with pytest.raises(SourceUnavailableError, match="no JSON of Slurm"):
        listed_nodes(b'{"sinfo": []}')
