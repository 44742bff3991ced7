"""Nodes: what two versions of Slurm said of theirs, and what the meter pays for idle ones."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pydantic import ValidationError

from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent, SourceUnavailableError
from streams.collect.slurm.collector import open_collector
from streams.collect.slurm.node_fields import FieldsOfNodes, default_partition
from streams.collect.slurm.nodes import NodeRecord, listed_nodes, node_events
from streams.collect.slurm.options import Options
from tests.collect.slurm.test_recorded import PRICE
from tests.collect.slurm.world import SlurmWorld, recorded_nodes
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


class Looked(NamedTuple):
    """What a poll finds, and what it does not understand."""

    events: list[CollectedEvent]
    known: Mapping[str, str]
    faults: list[str]


def looked(
    records: list[NodeRecord],
    known: Mapping[str, str] | None,
    at_s: int,
    options: Options = OPTIONS,
    default: Callable[[], str] = lambda: "",
) -> Looked:
    """What a poll finds; the day began at T0."""
    account = Account()
    found = node_events(records, known, at_s, T0_S, options, FieldsOfNodes(options, default), account)
    assert account.read == len(records)
    return Looked(found.events, found.known, account.said)


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_nodes_are_there_since_the_poll_that_saw_them_and_tell_when_they_drain(version: str) -> None:
    first = looked(nodes(version, 0), None, T0_S + 90)
    assert told(first.events) == [("n1", "provisioned", T0_S + 90), ("n2", "provisioned", T0_S + 90)]
    assert {**first.events[0].value, "id": "", "time_ms": 0} == {
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
    second = looked(drained, first.known, T0_S + 105)
    assert told(second.events) == [("n2", "draining", drained[1].reason_s)]
    assert looked(drained, second.known, T0_S + 120) == ([], second.known, [])


def test_a_node_that_was_drained_before_it_was_seen_is_not_older_than_its_first_poll() -> None:
    drained = nodes("22.05", 1)
    assert drained[1].reason_s > T0_S
    at_s = drained[1].reason_s + 600
    assert told(looked(drained, None, at_s).events)[1:] == [
        ("n2", "provisioned", at_s),
        ("n2", "draining", at_s),
    ]


def test_a_node_that_is_back_is_ready_and_one_that_is_down_is_still_paid() -> None:
    known = looked(nodes("22.05", 1), None, T0_S).known
    found = looked(nodes("22.05", 2), known, T0_S + 15)
    assert told(found.events) == [("n2", "ready", T0_S + 15)]
    assert {node: state.split()[0] for node, state in found.known.items()} == {"n1": "ready", "n2": "ready"}


@pytest.mark.parametrize("state", ["POWERED_DOWN", "FUTURE"])
def test_a_machine_that_is_switched_off_is_not_paid_until_it_is_back(state: str) -> None:
    both = nodes("22.05", 0)
    known = looked(both, None, T0_S).known
    off = [both[0], both[1]._replace(states=both[1].states | {state})]
    found = looked(off, known, T0_S + 15)
    assert told(found.events) == [("n2", "terminated", T0_S + 15)]
    assert told(looked(both, found.known, T0_S + 3600).events) == [("n2", "provisioned", T0_S + 3600)]


def test_what_no_job_holds_is_idle_cost_from_the_poll_that_saw_the_node() -> None:
    came_up_s = T0_S + 11 * 3600 + 49 * 60
    first = looked(nodes("22.05", 0), None, came_up_s)
    gone = looked(nodes("22.05", 0)[:1], first.known, came_up_s + 600)
    log = Log()
    log.publish([*first.events, *gone.events])
    assert not log.refused()
    tables = meter(
        [PRICE, *(Line(topic, dict(value)) for topic, value in log.events)],
        as_of_ms=(came_up_s + 900) * 1000,
    )
    paid = dict.fromkeys(("n1", "n2"), 0)
    for key, row in tables.nodes.items():
        paid[key.node] += row.cost_nano
    assert paid == {"n1": 900 * 4 * 1_000_000, "n2": 600 * 4 * 1_000_000}


SPOT: Final = {"purchase": "spot"}


def options(**named: Any) -> Options:
    return Options(partition_price_fields={"urgent": {"purchase": "on_demand"}, "batch": SPOT}, **named)


def purchases(found: Looked) -> list[str | None]:
    return [event.value.get("purchase") for event in found.events]


@pytest.mark.parametrize(
    ("default", "purchase", "why"),
    [
        ("urgent", "on_demand", "those of urgent, the default partition"),
        ("batch", "spot", "those of batch, the default partition"),
        ("other", "spot", "those of batch, its first partition"),
    ],
)
def test_a_node_whose_partitions_differ_has_the_fields_of_the_default_one(
    default: str, purchase: str, why: str
) -> None:
    found = looked(nodes("22.05", 0), None, T0_S, options(), lambda: default)
    assert purchases(found) == [purchase] * 2
    assert found.faults[0] == (
        f"node n1: its partitions batch, urgent differ in purchase; {why}, are taken: name its own in node_price_fields or"
        " feature_price_fields"
    )
    later = looked(nodes("22.05", 0), found.known, T0_S + 15, options(), lambda: default)
    assert (later.events, later.faults) == ([], found.faults)
    named = looked(nodes("22.05", 0), None, T0_S, options(default_partition="urgent"), pytest.fail)
    assert purchases(named) == ["on_demand"] * 2


def test_what_a_node_is_itself_goes_before_its_partitions_and_asks_nobody() -> None:
    featured = [each._replace(features=("ib", "reserved")) for each in nodes("24.11", 0)]
    given = options(
        feature_price_fields={"reserved": {"purchase": "reserved"}},
        node_price_fields={"n[2-9]": {"purchase": "on_prem"}},
    )
    found = looked(featured, None, T0_S, given, pytest.fail)
    assert purchases(found) == ["reserved", "on_prem"]
    assert found.faults == []


def test_partitions_that_agree_or_name_nothing_are_no_contradiction() -> None:
    same = Options(partition_price_fields={"urgent": SPOT, "batch": SPOT})
    found = looked(nodes("22.05", 0), None, T0_S, same, pytest.fail)
    assert (purchases(found), found.faults) == (["spot"] * 2, [])
    one = Options(partition_price_fields={"urgent": SPOT})
    assert purchases(looked(nodes("22.05", 0), None, T0_S, one, lambda: "batch")) == [None] * 2
    assert len(looked(nodes("22.05", 0), None, T0_S, one, lambda: "batch").faults) == 2


def test_fields_that_change_are_told_of_nodes_that_are_known() -> None:
    first = looked(nodes("22.05", 0), None, T0_S, options(), lambda: "batch")
    mended = options(node_price_fields={"n1": {"purchase": "on_demand"}})
    second = looked(nodes("22.05", 0), first.known, T0_S + 15, mended, lambda: "batch")
    assert told(second.events) == [("n1", "ready", T0_S + 15)]
    assert purchases(second) == ["on_demand"]
    of_a_former_version = {"n1": "ready", "n2": "draining"}
    third = looked(nodes("22.05", 0), of_a_former_version, T0_S + 30, mended, lambda: "batch")
    assert told(third.events) == [("n1", "ready", T0_S + 30), ("n2", "ready", T0_S + 30)]


def test_the_default_partition_is_the_one_that_scontrol_marks() -> None:
    answer = b"""PartitionName=batch AllowGroups=ALL Default=NO QoS=N/A
PartitionName=urgent AllowGroups=ALL AllocNodes=ALL Default=YES QoS=N/A
"""
    assert default_partition(answer) == "urgent"
    assert default_partition(b"\xff\n\nPartitionName= Default=YES\nDefault=YES") == ""


@pytest.mark.parametrize("names", ["n[1-", "n[1-999999999]"])
def test_names_of_nodes_that_are_none_are_refused(names: str) -> None:
    with pytest.raises(ValidationError, match="node_price_fields"):
        Options(node_price_fields={names: SPOT})


def test_a_dry_run_says_which_nodes_are_in_partitions_that_differ(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path)
    asked = [sys.executable, "-c", "print('PartitionName=urgent Default=YES')"]
    given = {"partition_price_fields": {"batch": SPOT}, "partitions_command": asked}
    batches = list(open_collector(world.options(**given)).poll(None, world.turn(0)))
    (told_of,) = [batch for batch in batches if batch.account.said]
    assert told_of.account.reasons == {"partitions_disagree": 2}
    assert [event.value.get("purchase") for event in told_of.events] == [None, None]
    assert "those of urgent, the default partition, are taken" in told_of.account.said[0]
    away = {**given, "partitions_command": [sys.executable, "-c", "raise SystemExit(3)"]}
    batches = list(open_collector(world.options(**away)).poll(None, world.turn(0)))
    (told_of,) = [batch for batch in batches if batch.account.said]
    assert "set default_partition, or partitions_command" in told_of.account.said[0]
    assert "those of batch, its first partition" in told_of.account.said[1]


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
