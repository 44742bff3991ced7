"""What is found of Slurm, Kubernetes, Ray and a machine, by answers in the forms that they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.clock import ManualClock
from streams.collect.collector import SourceUnavailableError
from streams.collect.kubernetes.options import Options as KubernetesOptions
from streams.collect.ray.api import NODES
from streams.collect.ray.options import Options as RayOptions
from streams.errors import TrainfareError, WrongUseError
from streams.init import of_kubernetes, of_machine, of_ray, of_slurm
from streams.init.look import detected, look
from streams.init.surroundings import KINDS_AT_MOST, NAMES_AT_MOST
from tests.collect.kubernetes import objects
from tests.collect.kubernetes.server import Change, ReplayServer
from tests.collect.ray.world import Dashboard
from tests.init.slurm_site import SlurmSite, node


def test_slurm_has_types_partitions_and_accounts() -> None:
    found = of_slurm.look(SlurmSite(node("n1"), node("n2", partitions=("batch", "urgent")), node("cpu", "")))
    assert found.title == "slurm-wlm 22.05.8, cluster quick, 3 nodes"
    assert found.types == {"h100": 8}
    assert found.kinds[0].fields == {"gpu_type": "h100", "cluster": "quick"}
    assert found.names == {"partitions": ("batch", "urgent"), "accounts": ("nlp", "vision")}
    assert found.options == {"slurm": {"nodes_command": ["sinfo", "--json"]}}
    assert not found.notes


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("slurm-wlm 22.05.8", ["sinfo", "--json"]),
        ("slurm 21.08.1", ["sinfo", "--json"]),
        ("slurm 23.02.1", ["scontrol", "show", "nodes", "--json"]),
        ("slurm 24.11.5", ["scontrol", "show", "nodes", "--json"]),
    ],
)
def test_nodes_are_asked_for_as_the_version_lists_them(version: str, command: list[str]) -> None:
    site = SlurmSite(version=version)
    assert of_slurm.look(site).options["slurm"]["nodes_command"] == command
    assert " ".join(command) in site.asked


def test_a_slurm_that_counts_no_gpus_is_refused_with_what_counts_them() -> None:
    with pytest.raises(TrainfareError, match="AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100 in"):
        of_slurm.look(SlurmSite(node("n1"), node("n2", "gpu:a100:2"), tracked="cpu,mem"))


def test_a_type_that_accounting_does_not_have_is_that_of_all_jobs_or_of_the_partition() -> None:
    one = of_slurm.look(SlurmSite(tracked="gres/gpu"))
    assert one.options["slurm"]["price_fields"] == {"gpu_type": "h100"}
    two = of_slurm.look(
        SlurmSite(
            node("n1", partitions=("hopper", "all")),
            node("n2", "gpu:a100:4", ("ampere", "all")),
            tracked="gres/gpu",
        )
    )
    assert two.options["slurm"]["partition_price_fields"] == {
        "ampere": {"gpu_type": "a100"},
        "hopper": {"gpu_type": "h100"},
    }
    assert "jobs of all that end between two polls may be unpriced" in two.notes[0]


def test_a_slurm_without_accounting_is_polled_without_it() -> None:
    found = of_slurm.look(SlurmSite(accounting="accounting_storage/none"))
    assert found.options["slurm"]["use_sacct"] is False
    assert any("missed" in note for note in found.notes)


def test_hidden_jobs_and_untyped_gpus_are_said() -> None:
    found = of_slurm.look(SlurmSite(node("n1", "gpu:4"), private="jobs,users"))
    assert any("PrivateData=jobs,users" in note for note in found.notes)
    assert any("name no type" in note for note in found.notes)


def test_names_that_no_event_may_have_are_left_out_and_said() -> None:
    accounts = "a\x1b[31m\nb" + "x" * 300 + "\nok\n" + "".join(f"n{number}\n" for number in range(2_000))
    found = of_slurm.look(SlurmSite(accounts=accounts))
    assert len(found.names["accounts"]) == NAMES_AT_MOST
    said = " ".join(found.notes)
    assert "accounts: left out 2" in said
    assert "accounts: 2001, of which the first 1000" in said
    assert "\x1b" not in said


def test_more_kinds_than_any_cluster_has_are_cut_and_counted() -> None:
    nodes = [node(f"n{number}", f"gpu:t{number}:1") for number in range(KINDS_AT_MOST + 7)]
    found = of_slurm.look(SlurmSite(*nodes, tracked="gres/gpu"))
    assert len(found.kinds) == KINDS_AT_MOST
    assert any("7 GPUs of the rest" in note for note in found.notes)


def test_kubernetes_has_products_clouds_and_regions() -> None:
    east = objects.node("n1")
    east["metadata"]["labels"] |= {
        "topology.kubernetes.io/region": "us-east-1",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "karpenter.sh/capacity-type": "spot",
    }
    east["spec"] = {"providerID": "aws:///us-east-1a/i-0"}
    server = ReplayServer(
        {"nodes": [Change(1, "ADDED", east), Change(2, "ADDED", objects.node("cpu", 0))], "pods": []}
    )
    server.shown = 2
    try:
        found = of_kubernetes.look(KubernetesOptions(url=server.url), ManualClock())
    finally:
        server.close()
    assert found.kinds[0].fields == {
        "cloud": "aws",
        "region": "us-east-1",
        "instance_type": "p5.48xlarge",
        "gpu_type": "H100",
        "purchase": "spot",
    }
    assert (found.kinds[0].gpus, found.kinds[0].nodes) == (8, 1)
    assert found.names == {
        "clouds": ("aws",),
        "regions": ("us-east-1",),
        "instance types": ("p5.48xlarge",),
    }
    assert found.options["kubernetes"] == {"url": server.url}


def test_dcgm_exporters_of_kubernetes_are_targets() -> None:
    exporter = {"metadata": {"name": "dcgm", "uid": "u"}, "status": {"podIP": "10.0.3.7"}}
    server = ReplayServer({"nodes": [], "pods": [Change(1, "ADDED", exporter)]})
    server.shown = 1
    try:
        found = of_kubernetes.look(KubernetesOptions(url=server.url), ManualClock())
    finally:
        server.close()
    assert found.options["dcgm"] == {"targets": ["http://10.0.3.7:9400/metrics"]}


def test_ray_has_the_gpus_of_its_nodes() -> None:
    alive = {
        "node_id": "a",
        "node_name": "10.0.0.1",
        "state": "ALIVE",
        "resources_total": {"GPU": 4.0, "accelerator_type:H100": 1.0},
        "start_time_ms": 1_790_000_000_000,
        "end_time_ms": 0,
    }
    gone = {**alive, "node_id": "b", "state": "DEAD", "end_time_ms": 1_790_000_100_000}
    listing = {"total": 2, "num_after_truncation": 2, "result": [alive, gone]}
    dashboard = Dashboard({NODES: {"data": {"result": listing}}})
    try:
        found = of_ray.look(RayOptions(url=dashboard.address))
    finally:
        dashboard.close()
    assert found.types == {"H100": 4}
    assert found.options == {"ray": {"url": dashboard.address}}


def test_a_ray_that_has_just_started_is_asked_until_it_lists_its_node() -> None:
    alive = {
        "node_id": "a",
        "node_name": "n1",
        "state": "ALIVE",
        "resources_total": {"GPU": 4.0},
        "end_time_ms": 0,
    }
    listed = {
        "total": 1,
        "num_after_truncation": 1,
        "result": [{**alive, "start_time_ms": 1_790_000_000_000}],
    }
    none = {"total": 0, "num_after_truncation": 0, "result": []}
    dashboard = Dashboard({NODES: {"data": {"result": none}}})
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            dashboard.answers[NODES] = {"data": {"result": listed}}

    try:
        found = of_ray.look(RayOptions(url=dashboard.address), wait)
        assert (found.title, sum(waited)) == (f"Ray at {dashboard.address}, 1 node", 3.0)
        dashboard.answers[NODES] = {"data": {"result": none}}
        waited[:] = [0.0] * 3
        empty = of_ray.look(RayOptions(url=dashboard.address), wait)
    finally:
        dashboard.close()
    assert (empty.types, sum(waited)) == ({}, 14.0)
    assert empty.notes == ("no node of Ray has GPUs (`ray start --num-gpus`): nothing will be metered",)


def test_a_machine_has_gpus_and_a_cloud(tmp_path: Path) -> None:
    vendor = tmp_path / "sys_vendor"
    vendor.write_text("Amazon EC2\n")
    # As nvidia-smi answers (tests/collect/nvidia_smi/recorded); the second reports no utilization.
    answer = b"0, GPU-1, NVIDIA H100 80GB HBM3, 3, 10, 70.1\n1, GPU-2, NVIDIA H100 80GB HBM3, [N/A], 0, 60\n"
    found = of_machine.look(lambda _: answer, vendor)
    assert found.types == {"NVIDIA H100 80GB HBM3": 2}
    assert found.kinds[0].nodes == 1
    assert found.options["nvidia-smi"] == {"price_fields": {"cloud": "aws"}}
    assert of_machine.cloud_of(tmp_path / "none") == ""


def test_what_does_not_answer_is_an_error_of_the_source() -> None:
    site = SlurmSite()
    del site.answers["scontrol show config"]
    with pytest.raises(SourceUnavailableError):
        of_slurm.look(site)


@pytest.mark.parametrize(
    ("name", "said"),
    [("slurm", "no sinfo, a command of Slurm: run this where users submit"), ("local", "no nvidia-smi, which comes with")],
)  # fmt: skip
def test_a_machine_without_the_command_is_said_as_such(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a collector says it, whose file names the command: `init` has no option for that."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainfareError, match=f"^init {name}: this machine has {said}") as caught:
        look(name, {}, ManualClock(0))
    assert "name a command" not in str(caught.value)


def test_a_slurm_that_does_not_answer_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\necho 'sinfo: error: resolve_ctls_from_dns_srv' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SourceUnavailableError, match=r"resolve_ctls.*\. Slurm's own commands must work here first"
    ):
        look("slurm", {}, ManualClock(0))


def test_a_login_is_for_those_that_have_one() -> None:
    with pytest.raises(WrongUseError, match="init slurm asks commands of this machine"):
        look("slurm", {"url": "http://127.0.0.1:1"}, ManualClock())
    with pytest.raises(WrongUseError, match="--url"):
        look("kubernetes", {"url": "ftp://x"}, ManualClock())


def test_the_one_that_is_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WrongUseError, match="nothing to meter is found here"):
        detected({})
    assert detected({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"
    monkeypatch.setenv("PATH", f"{SlurmSite().programs(tmp_path / 'bin')}")
    assert detected({}) == "slurm"
    with pytest.raises(WrongUseError, match="slurm, kubernetes; name one"):
        detected({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
