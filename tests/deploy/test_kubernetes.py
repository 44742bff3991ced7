"""deploy/kubernetes/collector.yaml: least rights, a configuration that is one, and a command that exists."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml

from streams.collect.kubernetes.options import Options
from tests.cli.command import trainfare
from tests.meta.tree import ROOT

OBJECTS = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/collector.yaml").read_text()))


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [each for each in OBJECTS if each["kind"] == kind]
    return dict(found)


def test_it_may_read_pods_and_nodes_and_nothing_else() -> None:
    assert of_kind("ClusterRole")["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
    ]
    role = of_kind("ClusterRoleBinding")
    assert role["roleRef"]["name"] == of_kind("ClusterRole")["metadata"]["name"]
    account = of_kind("ServiceAccount")["metadata"]
    assert role["subjects"] == [{"kind": "ServiceAccount", **account}]
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]


def test_its_configuration_is_one() -> None:
    document = tomllib.loads(of_kind("ConfigMap")["data"]["collect.toml"])
    assert Options.model_validate(document["kubernetes"]).cluster == "train-a"


def test_one_collector_keeps_its_position_and_nothing_else_on_a_disk() -> None:
    deployment = of_kind("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert f"--state={mounts['state']}/kubernetes.position" in container["args"]
    assert f"--config={mounts['config']}/collect.toml" in container["args"]


@pytest.mark.parametrize("name", ["--config", "--state", "--to", "--metrics"])
def test_its_arguments_are_those_of_the_command(name: str) -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["collect", "kubernetes"]
    assert [each for each in container["args"] if each.startswith(f"{name}=")]
    assert name in trainfare("collect", "--help").out
