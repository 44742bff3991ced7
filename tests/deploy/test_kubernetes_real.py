"""deploy/kubernetes/worker.yaml against a real kube-apiserver: no unknown field, and pods that a restricted namespace admits."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.collect.kubernetes.apiserver import missing, running
from tests.meta.tree import ROOT

_MISSING = missing()
_GROUPS = {
    "Job": "apis/batch/v1",
    "PodDisruptionBudget": "apis/policy/v1",
    "StatefulSet": "apis/apps/v1",
    "NetworkPolicy": "apis/networking.k8s.io/v1",
}
_STRICT = "?fieldValidation=Strict"


def _path(kind: str) -> str:
    if kind == "Namespace":
        return "/api/v1/namespaces"
    plural = "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"
    return f"/{_GROUPS.get(kind, 'api/v1')}/namespaces/trainfare/{plural}"


def _pod(name: str, spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "trainfare"},
        "spec": spec,
    }


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")
def test_an_api_server_takes_every_object_and_admits_the_pods(tmp_path: Path) -> None:
    objects = [
        each
        for name in ("worker", "network-policy")
        for each in yaml.safe_load_all((ROOT / f"deploy/kubernetes/{name}.yaml").read_text())
    ]
    with running(tmp_path / "k") as server:
        for each in objects:
            server.send("POST", _path(each["kind"]) + _STRICT, each)
            if "template" in each.get("spec", {}):
                pod = _pod(each["kind"].lower(), each["spec"]["template"]["spec"])
                server.send("POST", _path("Pod") + _STRICT, pod)
        with pytest.raises(AssertionError, match="violates PodSecurity"):
            server.send("POST", _path("Pod"), _pod("root", {"containers": [{"name": "a", "image": "b"}]}))
