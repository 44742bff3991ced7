"""deploy/kubernetes: least rights, configurations that are ones, and commands, settings and probes that exist."""

from __future__ import annotations

import re
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.collect.dcgm.options import Options as DcgmOptions
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.sizes import OWNER_KINDS
from streams.config.load import SettingsError, load_settings
from tests.cli.command import trainfare
from tests.meta.tree import ROOT

FOLDER = ROOT / "deploy/kubernetes"
COLLECTOR, WORKER = (
    list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())) for name in ("collector", "worker")
)
ROUTES = (ROOT / "streams/web/routes.py").read_text()


def of_kind(kind: str, objects: list[Any] = COLLECTOR, name: str = "") -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return dict(found)


def pods_of(objects: list[Any]) -> list[dict[str, Any]]:
    """The pods that the objects make."""
    return [each["spec"]["template"]["spec"] for each in objects if "template" in each.get("spec", {})]


def collectors() -> list[dict[str, Any]]:
    """The containers of the collectors: of pods and nodes, and of GPUs."""
    return list(of_kind("Deployment")["spec"]["template"]["spec"]["containers"])


def worker_pod() -> dict[str, Any]:
    return dict(of_kind("StatefulSet", WORKER)["spec"]["template"]["spec"])


def test_it_may_read_pods_nodes_devices_of_claims_and_owners_and_nothing_else() -> None:
    owners = [
        {"apiGroups": [group], "resources": [kind.plural for kind in kinds], "verbs": ["get"]}
        for group, kinds in groupby(OWNER_KINDS.values(), key=lambda kind: kind.group)
    ]
    assert of_kind("ClusterRole")["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceslices"],
            "verbs": ["get", "list"],
        },
        *owners,
    ]
    role = of_kind("ClusterRoleBinding")
    assert role["roleRef"]["name"] == of_kind("ClusterRole")["metadata"]["name"]
    account = of_kind("ServiceAccount")["metadata"]
    assert role["subjects"] == [{"kind": "ServiceAccount", **account}]
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]


def test_their_configuration_is_one_and_dcgm_reads_the_allocations_that_kubernetes_writes() -> None:
    document = tomllib.loads(of_kind("ConfigMap")["data"]["collect.toml"])
    options, gpus = (
        Options.model_validate(document["kubernetes"]),
        DcgmOptions.model_validate(document["dcgm"]),
    )
    assert options.cluster == gpus.price_fields["cluster"] == "train-a"
    assert options.allocations_output_file == gpus.allocations_file
    folder = str(Path(str(gpus.allocations_file)).parent)
    for container in collectors():
        assert {"name": "state", "mountPath": folder} in container["volumeMounts"]


def test_the_collectors_run_once_and_keep_their_positions_on_a_disk() -> None:
    deployment = of_kind("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    for container in collectors():
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert f"--state={mounts['state']}/{container['args'][1]}.position" in container["args"]
        assert f"--config={mounts['config']}/collect.toml" in container["args"]


@pytest.mark.parametrize("name", ["--config", "--state", "--to", "--metrics"])
def test_their_arguments_are_those_of_the_command(name: str) -> None:
    for container, source in zip(collectors(), ("kubernetes", "dcgm"), strict=True):
        assert container["args"][:2] == ["collect", source]
        assert [each for each in container["args"] if each.startswith(f"{name}=")]
    assert name in trainfare("collect", "--help").out


def test_containers_of_the_pod_serve_their_metrics_on_ports_of_their_own() -> None:
    ports = [container["ports"][0]["containerPort"] for container in collectors()]
    assert len(set(ports)) == len(ports)
    for container, port in zip(collectors(), ports, strict=True):
        assert f"--metrics=0.0.0.0:{port}" in container["args"]


@pytest.mark.parametrize(
    "pod", [*pods_of(COLLECTOR), *pods_of(WORKER)], ids=["collector", "topics", "worker"]
)
def test_no_pod_has_more_rights_than_the_restricted_profile_gives(pod: dict[str, Any]) -> None:
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} == set(container["resources"]["requests"])
        mounts = {each["name"] for each in container["volumeMounts"]}
        assert mounts == {each["name"] for each in pod["volumes"]}


def test_the_worker_has_no_rights_on_the_api_server() -> None:
    account = of_kind("ServiceAccount", WORKER)
    assert account["automountServiceAccountToken"] is False
    assert {pod["serviceAccountName"] for pod in pods_of(WORKER)} == {account["metadata"]["name"]}
    assert not [each["kind"] for each in WORKER if "Role" in each["kind"]]


def test_the_workers_settings_are_valid_and_its_secrets_are_where_they_say(tmp_path: Path) -> None:
    (container,) = worker_pod()["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    config = tmp_path / "trainfare.toml"
    config.write_text(of_kind("ConfigMap", WORKER)["data"]["trainfare.toml"])
    env = {each["name"]: each.get("value", "trainfare-worker-0") for each in container["env"]}
    assert env.pop("TRAINFARE_CONFIG") == f"{mounts['config']}/trainfare.toml"
    texts = of_kind("Secret", WORKER)["stringData"]
    for name in texts:
        (tmp_path / name).write_text(name.center(32, "-"))
    files = {name: Path(path) for name, path in env.items() if name.endswith("_FILE")}
    assert {str(path) for path in files.values()} == {f"{mounts['secrets']}/{name}" for name in texts}
    settings = load_settings(env | {name: str(tmp_path / path.name) for name, path in files.items()}, config)
    assert settings.kafka.group_instance_id == "trainfare-worker-0"
    assert settings.web.token is not None
    assert settings.web.port == container["ports"][0]["containerPort"]
    assert of_kind("StatefulSet", WORKER)["spec"]["replicas"] <= settings.kafka.partitions


def test_with_the_tokens_that_are_in_the_file_a_worker_does_not_start() -> None:
    tokens = {name: text for name, text in of_kind("Secret", WORKER)["stringData"].items() if "token" in name}
    for name, text in tokens.items():
        with pytest.raises(SettingsError, match="at least 16 characters"):
            load_settings({f"TRAINFARE_{name.upper()}": text})
    assert len(tokens) == 3


def test_its_probes_ask_what_a_worker_answers() -> None:
    (container,) = worker_pod()["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    for probe in probes.values():
        assert probe["port"] == container["ports"][0]["name"]
        assert re.search(rf'"GET", "{probe["path"]}", OPEN', ROUTES), "a probe has no token"


def test_services_and_the_disruption_budget_find_the_workers_and_the_collector_finds_them() -> None:
    workers = of_kind("StatefulSet", WORKER)["spec"]
    labels = workers["template"]["metadata"]["labels"]
    assert workers["selector"]["matchLabels"] == labels
    assert of_kind("PodDisruptionBudget", WORKER)["spec"]["selector"]["matchLabels"] == labels
    for name in ("trainfare", workers["serviceName"]):
        assert of_kind("Service", WORKER, name)["spec"]["selector"] == labels
    (port,) = of_kind("Service", WORKER, "trainfare")["spec"]["ports"]
    for collector in collectors():
        assert f"--to=http://trainfare.trainfare.svc:{port['port']}" in collector["args"]


@pytest.mark.parametrize(
    ("pod", "command"), [*zip(pods_of(WORKER), (("topics", "create"), ("worker",)), strict=True)]
)
def test_each_pod_runs_a_command_that_exists(pod: dict[str, Any], command: tuple[str, ...]) -> None:
    assert tuple(pod["containers"][0]["args"]) == command
    assert trainfare(*command, "--help").code == 0
