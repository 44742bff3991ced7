"""Entries that mean money in a form that is not read: each is counted with what mends it, and not as free."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from streams.accounts.account import Account, EntryClass
from streams.collect.mlflow.collector import open_collector as open_mlflow
from streams.collect.mlflow.events import account_for
from streams.collect.mlflow.options import Options as MlflowOptions
from streams.collect.mlflow.tracker_options import TrackerOptions
from streams.collect.ray.api import ACTORS
from streams.collect.ray.collector import open_collector as open_ray
from streams.collect.ray.options import Options as RayOptions
from streams.collect.wandb.records import run_of
from tests.collect.accounts import CREATED_MS, Counts, accounted, counted, of_files
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import at, pod
from tests.collect.kubernetes.objects import node as kube_node
from tests.collect.mlflow.server import MlflowServer
from tests.collect.mlflow.test_mlflow import metric, run
from tests.collect.ray.test_ray import A, actor, answers, group, job, node, supervisor, task
from tests.collect.ray.test_ray import at as ray_ms
from tests.collect.ray.world import Dashboard
from tests.collect.test_accounts import s3_line, with_allocations


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    found = Dashboard({})
    yield found
    found.close()


def ray(dashboard: Dashboard, found: dict[str, Any], **options: Any) -> tuple[Counts, list[dict[str, Any]]]:
    """Return the account of a poll, and the events."""
    dashboard.answers = found
    given = {"url": dashboard.address, "since": "2026-09-21", "interval_s": 1, **options}
    collector = open_ray(RayOptions.model_validate(given))
    events = [dict(each.value) for batch in collector.poll(None, ray_ms(100)) for each in batch.events]
    return counted(accounted(collector, ray_ms(100))), events


TPUS: Final = node("n1", A, -3600) | {
    "resources_total": {"TPU": 4.0, "TPU-v4-8-head": 1, "accelerator_type:TPU-V4": 1}
}


@pytest.mark.parametrize(
    "holder",
    [
        {"actors": [actor(3, requiredResources={"TPU": 4.0, "TPU-v4-8-head": 1.0})]},
        {"tasks": [task(5, None) | {"required_resources": {"TPU": 4.0}, "node_id": A}]},
        {"groups": [group(2, [0]) | {"bundles": [{"unit_resources": {"TPU": 4, "CPU": 1}, "node_id": A}]}]},
    ],
)
def test_another_accelerator_of_ray_is_named_and_read_where_the_options_say_what_one_is(
    dashboard: Dashboard, holder: dict[str, Any]
) -> None:
    """Ray has resources of their own for TPU, HPU, NPU, RBLN and Neuron cores."""
    found = answers([job("j1", 0)], **{"actors": [], **holder}, nodes=[TPUS])
    found[ACTORS]["data"]["actors"]["head"] = supervisor("j1", 1)
    read, events = ray(dashboard, found)
    assert (read["unknown_resource"], events) == (2, [])
    read, events = ray(dashboard, found, resources={"TPU": 1})
    assert "unknown_resource" not in read
    (started,) = [each for each in events if each["type"] == "started"]
    assert (started["gpu_count"], started["nodes"], started["gpu_type"]) == (4, {"n1": 4}, "TPU-V4")


def test_a_dead_actor_of_ray_without_an_end_holds_nothing_for_ever(dashboard: Dashboard) -> None:
    dead = actor(3, requiredResources={"GPU": 2.0}, state="DEAD", endTime=0)
    read, events = ray(dashboard, answers([job("j1", 0)], [supervisor("j1", 1), dead]))
    assert (read["malformed"], events) == (1, [])
    dead |= {"startTime": 0}  # it was never placed
    read, _ = ray(dashboard, answers([job("j1", 0)], [supervisor("j1", 1), dead]))
    assert "malformed" not in read


def test_what_runs_in_a_placement_group_of_ray_is_not_named_again(dashboard: Dashboard) -> None:
    inside = actor(
        3, requiredResources={"TPU_group_0_abc": 1.0, "bundle_group_abc": 0.001}, placementGroupId="g1"
    )
    read, _ = ray(dashboard, answers([job("j1", 0)], [supervisor("j1", 1), inside], groups=[group(2, [1])]))
    assert "unknown_resource" not in read


def test_runs_that_name_no_gpus_are_not_metered() -> None:
    server = MlflowServer()
    server.experiments = [{"experiment_id": "1", "name": "sft"}]
    used = [metric("system/gpu_0_utilization_percentage", 90, 50)]
    server.runs = [
        run("named", 0),
        run("none", 0),
        run("used", 0, metrics=used),
        run("part", 0, metrics=used),
    ]
    for each in server.runs[1:]:
        each["data"]["tags"] = []
    server.runs[3]["data"]["tags"] = [{"key": "trainfare.job_id", "value": "17"}]
    given = {"url": server.address, "since": "2026-09-21", "interval_s": 1}
    try:
        read = [
            counted(accounted(open_mlflow(MlflowOptions.model_validate({**given, **more})), ray_ms(100)))
            for more in ({}, {"default_gpus": 1})
        ]
    finally:
        server.close()
    assert read == [{"metered": 2, "no_gpus_named": 1, "unnamed_gpus": 1}, {"metered": 4}]


def field(number: int, value: bytes | int) -> bytes:
    """Return a field of Protocol Buffers, of less than 128 bytes."""
    if isinstance(value, int):
        return bytes([*_key(number, 0), *_varint(value)])
    return bytes([*_key(number, 2), len(value)]) + value


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    found = []
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


@pytest.mark.parametrize(("key", "uses"), [(b"gpu.0.gpu", True), (b"proc.cpu.threads", False)])
def test_figures_of_wandb_tell_of_gpus(key: bytes, uses: bool) -> None:
    begin = field(17, field(1, b"r1") + field(17, field(1, 1_780_308_000)))
    found = run_of([begin, field(7, field(1, 1) + field(3, field(1, key) + field(16, b"7")))])
    assert found is not None
    assert found.uses_gpus is uses


@pytest.mark.parametrize(
    ("op", "reasons"),
    [
        ("REST.PATCH.OBJECT", {"metered": 1}),
        ("S3.TRANSITION_SIA.OBJECT", {"lifecycle": 1}),
        ("S3.EXPIRE.OBJECT", {"unpaid": 1}),
        ("REST.CREATE.SESSION", {"malformed": 1}),
        ("REST", {"malformed": 1}),
    ],
)
def test_operations_of_s3_that_are_not_known_are_not_free(tmp_path: Path, op: str, reasons: Counts) -> None:
    assert (
        counted(of_files("s3-access-logs", s3_line(op=op), tmp_path, with_allocations(tmp_path))) == reasons
    )


@pytest.mark.parametrize(
    ("reporter", "reason"),
    [("SRC", "metered"), ("DEST_GATEWAY", "gateway"), ("", "no_direction"), ("src", "no_direction")],
)
def test_a_flow_of_google_without_its_reporter_is_not_free(
    tmp_path: Path, reporter: str, reason: str
) -> None:
    payload = {
        "connection": {"src_ip": "10.0.1.5", "dest_ip": "8.8.8.8"}, "bytes_sent": "100", "reporter": reporter,
        "start_time": "2026-06-01T10:00:00Z", "end_time": "2026-06-01T10:00:05Z",
    }  # fmt: skip
    text = json.dumps({"jsonPayload": payload})
    assert counted(of_files("gcp-flow-logs", text, tmp_path, with_allocations(tmp_path))) == {reason: 1}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"flowRecords": {"flows": []}}, "no_traffic"),
        ({"properties": {"flows": []}}, "no_traffic"),
        ({"category": "NetworkSecurityGroupEvent"}, "malformed"),
        ({"flowRecords": {}}, "malformed"),
        ({"flowRecords": {"flows": [{"flowgroups": []}]}}, "malformed"),
        ({"flowRecords": {"flows": [{"flowGroups": [{"rule": "x"}]}]}}, "malformed"),
        ({"properties": {"flows": [{"flows": [{"mac": "x"}]}]}}, "malformed"),
    ],
)
def test_a_record_of_azure_without_flows_is_counted(
    tmp_path: Path, record: dict[str, Any], reason: str
) -> None:
    text = json.dumps({"records": [record]})
    assert counted(of_files("azure-flow-logs", text, tmp_path, with_allocations(tmp_path))) == {reason: 1}


def test_gpus_that_kubernetes_does_not_count_are_named() -> None:
    """KAI and Run:ai give shares by an annotation (kubecost/kubecost#1023); a node without its device plugin offers none."""
    cluster = Cluster(include_nodes=True)
    shared = pod("a", bound=1, resource="cpu", gpus="1")
    shared["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    silent, whole = kube_node("n2", gpus=0), kube_node("n1")
    silent["metadata"]["labels"]["nvidia.com/gpu.count"] = "8"
    cluster.put("nodes", whole, silent)
    cluster.put("pods", shared)
    cluster.poll(10)
    account = cluster.batches[-1].account
    assert (account.reasons["gpu_annotation"], account.reasons["not_offered"]) == (1, 1)
    assert account.of_class(EntryClass.METERED) == {"": 1}


DAY_S: Final = 86_400


def test_a_run_of_mlflow_that_was_killed_is_said_to_have_no_end() -> None:
    """It stays RUNNING, and is paid on (NovaSky-AI/SkyRL#1516, mlflow/mlflow#7078)."""
    server = MlflowServer()
    server.experiments = [{"experiment_id": "1", "name": "sft"}]
    server.runs = [
        run("silent", -DAY_S),
        run("logged", -DAY_S, metrics=[metric("system/gpu_0_utilization_percentage", 90, 50)]),
        run("costed", -DAY_S, metrics=[metric("cost_usd", 7, 50)]),  # by the collector itself
        run("young", 20),
        run("ended", -DAY_S, 20),
        run("part", -DAY_S, tags={"trainfare.job_id": "17"}),
    ]
    given = {"url": server.address, "since": "2026-09-01", "interval_s": 1}
    try:
        read = counted(accounted(open_mlflow(MlflowOptions.model_validate(given)), ray_ms(100)))
    finally:
        server.close()
    assert read == {"no_end": 2, "metered": 4}


def test_a_run_of_wandb_that_was_killed_is_said_to_have_no_end() -> None:
    """As wandb/wandb#4707; one that goes on in a later folder is ended by that."""
    begin_s = CREATED_MS // 1000
    given = {"trainfare": {"gpus": 1}}
    looks = []
    for name, folder, logged_s in (("r1", 0, 30), ("r2", 0, 30), ("r2", 5, 86_430)):
        start = field(17, field(1, name.encode()) + field(17, field(1, begin_s + folder)))
        config = field(
            5, field(1, field(1, b"trainfare") + field(16, json.dumps(given["trainfare"]).encode()))
        )
        stats = field(7, field(1, 1) + field(2, field(1, begin_s + logged_s)))
        looks.append(run_of([start, config, stats]))
    account, options = Account(), TrackerOptions(source="wandb")
    last, now_ms = looks[2], (begin_s + 86_440) * 1000
    for each, at_ms in zip(looks, (now_ms, 0, now_ms), strict=True):
        assert each is not None
        account_for(each, options, account, at_ms)
    assert counted(account) == {"no_end": 1, "metered": 2}
    assert last is not None
    account_for(last, options, later := Account(), now_ms + DAY_S * 1000)
    assert counted(later) == {"no_end": 1}


def test_a_pod_of_which_nothing_says_when_it_ended_is_named() -> None:
    """ContainerStatusUnknown has no times (kubernetes/kubernetes#122160); most often a condition has one."""
    unknown = pod("a", bound=1, started=2, ended=50)
    unknown["status"]["phase"] = "Failed"
    unknown["status"]["containerStatuses"][0]["state"]["terminated"] = {
        "exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": "0001-01-01T00:00:00Z",
    }  # fmt: skip
    timed = copy.deepcopy(unknown)
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": at(60)}
    timed["status"]["conditions"].append(ready)
    rejected = pod("a", bound=1)
    rejected["status"] |= {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    reasons = []
    for each in (unknown, timed, rejected):
        cluster = Cluster(include_nodes=False)
        cluster.put("pods", each)
        cluster.poll(100)
        reasons.append(counted(cluster.batches[-1].account))
    assert reasons == [{"no_times": 1}, {"metered": 1}, {"metered": 1}]


def test_a_run_that_ends_before_it_starts_is_not_understood() -> None:
    server = MlflowServer()
    server.experiments = [{"experiment_id": "1", "name": "sft"}]
    server.runs = [run("far", 0, -3600), run("near", 10, 8)]  # two machines' clocks
    given = {"url": server.address, "since": "2026-09-01", "interval_s": 1}
    try:
        read = counted(accounted(open_mlflow(MlflowOptions.model_validate(given)), ray_ms(100)))
    finally:
        server.close()
    assert read == {"no_times": 1, "metered": 1}
