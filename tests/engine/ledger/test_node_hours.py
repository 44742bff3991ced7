"""Hours of nodes: late prices, a change within an hour, a second period of service, and snapshots that know no hours."""

from __future__ import annotations

from typing import Any

import pytest

from streams.engine.snapshot import job_blobs
from tests.harness import meter
from tests.oracle.compute import compute
from tests.oracle.model import HOUR_MS, Line
from tests.property.compare import assert_same

T0 = 473_355 * HOUR_MS


def price(sku: str, usd: str, **more: Any) -> Line:
    said = {"source": "s", "id": sku + usd, "time_ms": T0, "sku": sku, "usd": usd, "effective_ms": 0}
    return Line("prices", said | more)


def node(kind: str, hours: float, name: str = "n", **more: Any) -> Line:
    at_ms = T0 + round(hours * HOUR_MS)
    said = {"source": "s", "id": f"{kind}{hours}", "time_ms": at_ms, "node": name, "type": kind}
    return Line("nodes", said | more)


GPU = price("g", "3", component="gpu", per="gpu_hour")
CPU = price("c", "0.6", component="compute", per="instance_hour")


@pytest.mark.parametrize("restarts", [[], [2], [3]])
def test_a_price_of_instances_that_comes_late_pays_a_node_without_gpus(restarts: list[int]) -> None:
    lines = [node("provisioned", 0), node("terminated", 1.25), node("provisioned", 0, "g", gpu_count=2), CPU]
    got = meter(lines, cuts=[2, 3], restarts=restarts, open_at=[3])
    assert_same(got, compute(lines))
    assert [row.cost_nano for row in got.node_hours.values() if row.cost_nano] == [600_000_000, 150_000_000]


def test_an_hour_has_what_the_node_was_last_and_hours_without_service_have_no_row() -> None:
    lines = [
        GPU,
        node("provisioned", 0.5, gpu_count=1, team="red", cluster="a"),
        node("ready", 0.75, cluster="b", gpu_count=2),
        node("terminated", 1.5),
        node("provisioned", 3.25),
        node("terminated", 3.5),
    ]
    got = meter(lines)
    assert_same(got, compute(lines))
    hours = {hour - T0 // HOUR_MS: row for (_, hour), row in got.node_hours.items()}
    assert {hour: (row.dimensions[3], row.dimensions[-1], row.paid_ms) for hour, row in hours.items()} == {
        0: ("b", "red", HOUR_MS // 2),
        1: ("b", "red", HOUR_MS // 2),
        3: ("b", "red", HOUR_MS // 4),
    }
    assert [row.cost_nano for row in hours.values()] == [2_250_000_000, 3_000_000_000, 1_500_000_000]


def test_a_service_that_turns_out_shorter_takes_its_hours_back() -> None:
    lines = [GPU, node("provisioned", 0, gpu_count=1), node("ready", 5), node("terminated", 1.5)]
    got = meter(lines, cuts=[3], open_at=[3])
    assert_same(got, compute(lines))
    assert sorted(hour - T0 // HOUR_MS for _, hour in got.node_hours) == [0, 1]


WAYS = [
    GPU,
    node("provisioned", 0.75, gpu_count=1),
    node("ready", 1.25),
    node("draining", 2),
    node("ready", 2.5),  # it was drained, and on no way
    node("terminated", 3),
    node("provisioned", 4),
    node("draining", 4.25),
    node("ready", 4.5),  # something else came between
    node("ready", 0, "known-late"),
    node("provisioned", 1, "known-late"),  # in the middle of its service
    node("ready", 2, "known-late"),
    node("provisioned", 5, "lost"),  # no `ready` ever came
]


@pytest.mark.parametrize("cut", range(2, len(WAYS)))
def test_a_node_is_on_its_way_from_provisioned_to_the_ready_that_followed(cut: int) -> None:
    want = compute(WAYS, as_of_ms=T0 + 6 * HOUR_MS)
    for again in ({}, {"restarts": [cut]}, {"crashes": {cut: 1}}):
        assert_same(meter(WAYS, cuts=[cut], open_at=[cut], as_of_ms=T0 + 6 * HOUR_MS, **again), want)
    starting = {key: row.starting_ms for key, row in want.node_hours.items() if row.starting_ms}
    hour = T0 // HOUR_MS
    assert starting == {("n", hour): HOUR_MS // 4, ("n", hour + 1): HOUR_MS // 4}


def test_hours_of_nodes_that_a_snapshot_without_hours_has_are_all_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As version 0.1.0 wrote them."""
    whole = job_blobs.NodeBlob

    def older(*values: Any) -> job_blobs.NodeBlob:
        return whole(*values[:6])

    lines = [
        GPU,
        node("provisioned", 0, gpu_count=1),
        node("terminated", 3),
        node("provisioned", 4),
        node("ready", 5),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(job_blobs, "NodeBlob", older)
        got = meter(lines, cuts=[3], restarts=[3])
    assert_same(got, compute(lines))
