"""One node of eight GPUs with HAMi, a ResourceClaim, time slicing and MIG at once: its pods' GPU-time and what stands idle is all that it has.

From the API server's objects to the figures of `node_hour_balance`, at a price of a nano-dollar for a thousandth of a GPU and a ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import JOB_MINUTES, NODE_HOURS, NODE_MINUTES, SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.engine.settings import ShardSettings
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import T0_S, node, pod
from tests.collect.kubernetes.test_claims import CLAIMS, SLICES, claim, device, dra_pod, slices
from tests.collect.slurm.test_recorded import PRICE
from tests.harness import FAR_FUTURE_MS, Meter
from tests.oracle.model import Line
from tests.sinks.rows import dicts
from tests.sinks.stores import embedded

GPUS = 8
SHARED, MIG = "nvidia.com/gpu.shared", "nvidia.com/mig-3g.40gb"
GONE_S = 7_200
#: A pod: what it is, and from when to when it is there, in seconds after the node.
PODS: dict[str, tuple[str, int, int]] = {
    **{f"quarter-{number}": ("quarter", 10 + number, 3_600 + number) for number in range(4)},
    "claim": ("claim", 61, 5_003),
    **{f"slice-{number}": ("slice", 100, 4_000 + 7 * number) for number in range(3)},
    "slice-again": ("slice", 4_001, 7_001),
    "instance": ("instance", 59, 6_999),
    "whole": ("whole", 3_700, 3_701),
}
#: What it is -> the thousandths of a GPU that it may hold in events: next to 1/4, 1, 1/3, 3/7.
HELD_MILLI = {
    "quarter": {250},
    "claim": {1000},
    "slice": {333, 334},
    "instance": {428, 429},
    "whole": {1000},
}


def big_node() -> dict[str, Any]:
    """Of its GPUs four are HAMi's, one is shared in turns by three pods, one has MIG; two are the drivers' of claims."""
    found = node()
    found["metadata"]["labels"] |= {"nvidia.com/gpu.count": str(GPUS), "nvidia.com/gpu.replicas": "3"}
    register = "".join(f"GPU-{number},10,81559,100,NVIDIA-H100,0,true:" for number in range(4))
    found["metadata"]["annotations"] = {"hami.io/node-nvidia-register": register}
    found["status"]["capacity"] = {"nvidia.com/gpu": "40", SHARED: "3", MIG: "2"}
    return found


def shown(name: str, **times: Any) -> dict[str, Any]:
    """A pod as the API server has it."""
    kind = PODS[name][0]
    if kind == "claim":
        return dra_pod(name, "one", **times)
    found = pod(
        name, gpus="1", resource={"slice": SHARED, "instance": MIG}.get(kind, "nvidia.com/gpu"), **times
    )
    if kind == "quarter":
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "25", "nvidia.com/gpumem-percentage": "20"}
        found["spec"]["containers"][0]["resources"]["limits"] = limits
        found["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,16311,25:;"}
    return found


def collected() -> tuple[list[Line], Cluster]:
    """The events of the node's two hours, polled each few minutes."""
    cluster = Cluster()
    cluster.server.bodies[CLAIMS.format(version="v1", name="one")] = json.dumps(claim("gpu-7")).encode()
    cluster.server.bodies[SLICES.format(version="v1")] = json.dumps(
        {"items": slices(device("gpu-7"))}
    ).encode()
    cluster.put("nodes", big_node())
    cluster.poll(1)
    begins = [(begin_s, False, name) for name, (_, begin_s, _) in PODS.items()]
    ends = [(end_s, True, name) for name, (_, _, end_s) in PODS.items()]
    polled_s = 1
    for at_s, is_end, name in sorted(begins + ends):
        if at_s - polled_s > 400:
            cluster.poll(polled_s := at_s - 1)
        begin_s = PODS[name][1]
        times: dict[str, Any] = {"bound": begin_s, "started": begin_s, **({"ended": at_s} if is_end else {})}
        cluster.put("pods", shown(name, **times))
    cluster.poll(GONE_S - 1)
    gone = big_node()
    gone["metadata"]["deletionTimestamp"] = "2026-09-21T16:13:20Z"
    cluster.delete("nodes", gone)
    cluster.poll(GONE_S + 60)
    return [Line(topic, dict(value)) for topic, value in cluster.log.events], cluster


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path / "engine") as opened:
        yield opened


def test_pods_and_idle_are_all_gpus_of_a_node_to_the_millisecond(store: ClickHouseStore) -> None:
    lines, cluster = collected()
    assert not any(batch.account.reasons for batch in cluster.batches)
    of_node = [event.value for event in cluster.log.events if event.topic == "nodes"]
    times = {str(each["type"]): int(each["time_ms"]) for each in of_node}
    assert times == {"provisioned": T0_S * 1000, "terminated": (T0_S + GONE_S) * 1000}
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS))
    machine.feed(list(enumerate([PRICE, *lines])))
    machine.checkpoint(machine.newest_ms)
    for table in (JOB_MINUTES, NODE_MINUTES, NODE_HOURS):
        rows = [dict(row) for row in machine.store.tables[table].values()]
        store.insert(table, pa.Table.from_pylist(rows, schema=SCHEMAS[table]), table)

    held_ms: dict[str, int] = {}
    for row in dicts(
        store,
        "SELECT job_id, sum(quantity) AS ms FROM job_minutes FINAL WHERE component = 'gpu' GROUP BY job_id",
    ):
        held_ms[str(row["job_id"]).rpartition("/")[2]] = int(row["ms"])
    shares: dict[str, int] = {}
    for name, (kind, begin_s, end_s) in PODS.items():
        milli, rest = divmod(held_ms[name], (end_s - begin_s) * 1000)
        assert (rest, milli in HELD_MILLI[kind]) == (0, True), (name, milli)
        shares[name] = milli
    assert sum(shares[f"slice-{number}"] for number in range(3)) == 1000
    assert shares["slice-again"] == shares["slice-0"], "who comes takes the place of who went"

    elapsed_ms = GONE_S * 1000
    (balance,) = dicts(
        store,
        "SELECT sum(b.gpu_milli_ms) AS gpu, CAST(sum(b.node_cost_usd) * 1000000000 AS Int128) AS paid,"
        " CAST(sum(b.idle_cost_usd) * 1000000000 AS Int128) AS idle,"
        " CAST(sum(b.overcommitted_cost_usd) * 1000000000 AS Int128) AS over FROM node_hour_balance AS b",
    )
    assert balance["gpu"] == balance["paid"] == GPUS * 1000 * elapsed_ms
    assert sum(held_ms.values()) + balance["idle"] == GPUS * 1000 * elapsed_ms
    assert balance["over"] == 0
