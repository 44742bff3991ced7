"""deploy/kubernetes/trainfare.yaml, as the chart renders it: least rights, configurations that are ones, and commands, settings and probes that exist."""

from __future__ import annotations

import re
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from streams.collect.dcgm.options import Options as DcgmOptions
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.sizes import OWNER_KINDS
from streams.config.load import SettingsError, load_settings
from tests.cli.command import trainfare
from tests.deploy.chart import component, manifests, pod_templates
from tests.meta.tree import ROOT

OBJECTS = manifests()
PODS = {name: each["spec"] for name, each in pod_templates(OBJECTS).items()}
ROUTES = (ROOT / "streams/web/routes.py").read_text()
COLLECTORS = ("dcgm", "kubernetes")


def of_kind(kind: str, of: str, name: str = "") -> dict[str, Any]:
    (found,) = [
        each
        for each in OBJECTS
        if each["kind"] == kind and component(each) == of and name in ("", each["metadata"]["name"])
    ]
    return found


def collectors() -> list[dict[str, Any]]:
    """The containers of the collectors: of GPUs, and of pods and nodes."""
    return list(PODS["collector"]["containers"])


def mounts_of(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["mountPath"] for each in container["volumeMounts"]}


def settings_of(pod: dict[str, Any], folder: Path, secret: str = "-" * 32) -> Any:
    """The settings that a container reads from its variables, the configuration and its secrets."""
    (container,) = pod["containers"]
    mounts = mounts_of(container)
    config = folder / "trainfare.toml"
    config.write_text(of_kind("ConfigMap", "worker")["data"]["trainfare.toml"])
    env = {each["name"]: str(each.get("value", "trainfare-worker-0")) for each in container["env"]}
    assert env.pop("TRAINFARE_CONFIG") == f"{mounts['config']}/trainfare.toml"
    for name in [each for each in env if each.endswith("_FILE")]:
        inside = Path(env[name])
        assert str(inside.parent) == mounts["secrets"]
        (folder / inside.name).write_text(f"{inside.name}{secret}")
        env[name] = str(folder / inside.name)
    return load_settings(env, config)


def secret_files(pod: dict[str, Any]) -> set[str]:
    """The files that the pod's secrets are."""
    volumes = {each["name"]: each for each in pod["volumes"]}
    sources = volumes["secrets"]["projected"]["sources"] if "secrets" in volumes else []
    return {item["path"] for each in sources for item in each["secret"]["items"]}


def test_there_is_no_secret_in_it() -> None:
    assert "Secret" not in {each["kind"] for each in OBJECTS}


def test_it_may_read_pods_nodes_devices_of_claims_and_owners_and_nothing_else() -> None:
    owners = [
        {"apiGroups": [group], "resources": [kind.plural for kind in kinds], "verbs": ["get"]}
        for group, kinds in groupby(OWNER_KINDS.values(), key=lambda kind: kind.group)
    ]
    role = of_kind("ClusterRole", "collector")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceslices"],
            "verbs": ["get", "list"],
        },
        *owners,
    ]
    bound = of_kind("ClusterRoleBinding", "collector")
    assert bound["roleRef"]["name"] == role["metadata"]["name"]
    account = of_kind("ServiceAccount", "collector")["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    assert bound["subjects"] == [subject]
    assert PODS["collector"]["serviceAccountName"] == account["name"]


def test_one_container_alone_has_the_token_of_the_api_server() -> None:
    for pod in PODS.values():
        assert pod["automountServiceAccountToken"] is False
    having = [
        each["name"] for pod in PODS.values() for each in pod["containers"] if "account" in mounts_of(each)
    ]
    assert having == ["kubernetes"]
    assert not [each for each in OBJECTS if "Role" in each["kind"] and component(each) != "collector"]
    for of in ("worker", "collector"):
        assert of_kind("ServiceAccount", of)["automountServiceAccountToken"] is False


def test_their_configuration_is_one_and_dcgm_reads_the_allocations_that_kubernetes_writes() -> None:
    document = tomllib.loads(of_kind("ConfigMap", "collector")["data"]["collect.toml"])
    options = Options.model_validate(document["kubernetes"])
    gpus = DcgmOptions.model_validate(document["dcgm"])
    assert options.cluster == gpus.price_fields["cluster"] == "train-a"
    assert options.allocations_output_file == gpus.allocations_file
    folder = str(Path(str(gpus.allocations_file)).parent)
    for container in collectors():
        assert mounts_of(container)["state"] == folder


def test_the_collectors_run_once_and_keep_their_positions_on_a_disk() -> None:
    deployment = of_kind("Deployment", "collector")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    claim = of_kind("PersistentVolumeClaim", "collector")["metadata"]
    assert claim["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert {"name": "state", "persistentVolumeClaim": {"claimName": claim["name"]}} in PODS["collector"][
        "volumes"
    ]
    for container in collectors():
        mounts = mounts_of(container)
        assert f"--state={mounts['state']}/{container['args'][1]}.position" in container["args"]
        assert f"--config={mounts['config']}/collect.toml" in container["args"]


@pytest.mark.parametrize("name", ["--config", "--state", "--to", "--metrics"])
def test_their_arguments_are_those_of_the_command(name: str) -> None:
    for container, source in zip(collectors(), COLLECTORS, strict=True):
        assert container["args"][:2] == ["collect", source]
        assert [each for each in container["args"] if each.startswith(f"{name}=")]
    assert name in trainfare("collect", "--help").out


def test_containers_of_the_pod_serve_their_metrics_on_ports_of_their_own() -> None:
    ports = [container["ports"][0]["containerPort"] for container in collectors()]
    assert len(set(ports)) == len(ports)
    for container, port in zip(collectors(), ports, strict=True):
        assert f"--metrics=0.0.0.0:{port}" in container["args"]
        assert container["livenessProbe"]["tcpSocket"]["port"] == container["ports"][0]["name"]


@pytest.mark.parametrize("name", sorted(PODS))
def test_no_pod_has_more_rights_than_the_restricted_profile_gives(name: str) -> None:
    pod = PODS[name]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} == set(container["resources"]["requests"])
        assert {each["name"] for each in pod["volumes"]} - {"account"} == set(mounts_of(container)) - {
            "account"
        }


def test_the_workers_settings_are_valid_and_its_secrets_are_where_they_say(tmp_path: Path) -> None:
    settings = settings_of(PODS["worker"], tmp_path)
    (container,) = PODS["worker"]["containers"]
    files = {each["value"].rpartition("/")[2] for each in container["env"] if each["name"].endswith("_FILE")}
    assert files == secret_files(PODS["worker"])
    assert settings.kafka.group_instance_id == "trainfare-worker-0"
    assert settings.web.token is not None
    assert settings.web.port == container["ports"][0]["containerPort"]
    assert of_kind("StatefulSet", "worker")["spec"]["replicas"] <= settings.kafka.partitions


def test_the_job_that_creates_topics_starts_without_the_workers_secrets(tmp_path: Path) -> None:
    assert not secret_files(PODS["topics"])
    settings = settings_of(PODS["topics"], tmp_path)
    assert settings.kafka.partitions == settings_of(PODS["worker"], tmp_path).kafka.partitions
    with pytest.raises(SettingsError, match="expected a token"):
        load_settings({}, tmp_path / "trainfare.toml")


def test_its_probes_ask_what_a_worker_answers() -> None:
    (container,) = PODS["worker"]["containers"]
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
    workers = of_kind("StatefulSet", "worker")["spec"]
    labels = workers["template"]["metadata"]["labels"]
    assert workers["selector"]["matchLabels"] == labels
    assert of_kind("PodDisruptionBudget", "worker")["spec"]["selector"]["matchLabels"] == labels
    for name in ("trainfare", workers["serviceName"]):
        assert of_kind("Service", "worker", name)["spec"]["selector"] == labels
    (port,) = of_kind("Service", "worker", "trainfare")["spec"]["ports"]
    for collector in collectors():
        assert f"--to=http://trainfare.trainfare.svc:{port['port']}" in collector["args"]


@pytest.mark.parametrize(("name", "command"), [("topics", ("topics", "create")), ("worker", ("worker",))])
def test_each_pod_runs_a_command_that_exists(name: str, command: tuple[str, ...]) -> None:
    assert tuple(PODS[name]["containers"][0]["args"]) == command
    assert trainfare(*command, "--help").code == 0
