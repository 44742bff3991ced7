"""The chart in a real kube-apiserver: dry run, install, upgrade, rollback and uninstall, in a namespace that admits restricted pods alone.

No controller runs: pods are made of the templates as a controller would make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm.write import CHART
from tests.collect.kubernetes.apiserver import ADMIN, ApiServerProcess, missing, running
from tests.deploy.chart import EXAMPLES, RELEASE, HelmError, helm, pod_templates, rendered
from tests.deploy.test_chart_rendered import definitions_of_the_operator
from tests.go_tools import go
from tests.meta.tree import ROOT

_MISSING = missing() + ([] if go() else ["go"])
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7_200),  # the first time the server is compiled
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}"),
]
COMPANY = ROOT / "deploy/helm/examples/company.yaml"
_NAMESPACE = {"metadata": {"name": RELEASE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
_DRY = "?dryRun=All&fieldValidation=Strict"


class Cluster:
    """An API server with the operator's definitions, and Helm that is logged in to it."""

    def __init__(self, server: ApiServerProcess) -> None:
        self.server = server
        self._config = server.directory / "kubeconfig"
        config: dict[str, Any] = {
            "clusters": [
                {"name": "c", "cluster": {"server": server.url, "certificate-authority": str(server.ca_file)}}
            ],
            "users": [{"name": "u", "user": {"token": ADMIN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self._config.write_text(yaml.safe_dump(config))
        self._config.chmod(0o600)
        server.send("POST", "/api/v1/namespaces", _NAMESPACE)
        for definition in definitions_of_the_operator():
            server.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        for name in ("servicemonitors", "podmonitors"):
            server.until(f"/apis/monitoring.coreos.com/v1/namespaces/{RELEASE}/{name}")

    def helm(self, *words: str) -> str:
        return helm(*words, KUBECONFIG=str(self._config), HELM_NAMESPACE=RELEASE)

    @cached_property
    def plurals(self) -> dict[tuple[str, str], tuple[str, bool]]:
        """(version, kind) -> the word in paths, and whether it stands in a namespace."""
        groups = self.server.send("GET", "/apis")["groups"]
        versions = ["v1", *(each["groupVersion"] for group in groups for each in group["versions"])]
        return {
            (version, each["kind"]): (each["name"], each["namespaced"])
            for version in versions
            for each in self.server.send("GET", _root(version))["resources"]
            if "/" not in each["name"]
        }

    def path(self, found: dict[str, Any]) -> str:
        """Where objects of this kind are."""
        plural, is_namespaced = self.plurals[found["apiVersion"], found["kind"]]
        namespace = f"/namespaces/{found['metadata'].get('namespace', RELEASE)}" if is_namespaced else ""
        return f"{_root(found['apiVersion'])}{namespace}/{plural}"

    def now(self, found: dict[str, Any]) -> dict[str, Any]:
        """The object as it is there."""
        there: dict[str, Any] = self.server.send("GET", f"{self.path(found)}/{found['metadata']['name']}")
        return there

    def is_there(self, found: dict[str, Any]) -> bool:
        try:
            self.now(found)
        except AssertionError as fault:
            if ": 404 " not in str(fault):
                raise
            return False
        return True

    def may(self, account: str, verb: str, resource: str) -> bool:
        """Whether a ServiceAccount may do that somewhere in the cluster."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{RELEASE}:{account}",
                "groups": [
                    "system:serviceaccounts",
                    f"system:serviceaccounts:{RELEASE}",
                    "system:authenticated",
                ],
                "resourceAttributes": {"verb": verb, "resource": resource, "namespace": RELEASE},
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.server.send("POST", path, review)["status"]["allowed"])


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def spec_of(found: dict[str, Any]) -> Any:
    """What was asked for, without what the server has added."""
    return {
        key: each for key, each in found.items() if key in ("spec", "data", "rules", "roleRef", "subjects")
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path / "k") as server:
        yield Cluster(server)


def test_the_server_takes_every_object_of_each_example_and_admits_the_pods(cluster: Cluster) -> None:
    for path in EXAMPLES:
        objects = rendered(path)
        for each in objects:
            cluster.server.send("POST", cluster.path(each) + _DRY, each)
        for name, template in pod_templates(objects).items():
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**template["metadata"], "name": name},
                "spec": template["spec"],
            }
            cluster.server.send("POST", cluster.path(pod) + _DRY, pod)
            pod["spec"] = {**template["spec"], "hostNetwork": True}
            with pytest.raises(AssertionError, match="violates PodSecurity"):
                cluster.server.send("POST", cluster.path(pod) + _DRY, pod)
    wrong = next(each for each in objects if each["kind"] == "StatefulSet")
    wrong["spec"]["replica"] = 1
    with pytest.raises(AssertionError, match="unknown field"):
        cluster.server.send("POST", cluster.path(wrong) + _DRY, wrong)


ON_DELETE = ("--set", "workers.updateStrategy=OnDelete")


def test_a_release_is_installed_upgraded_rolled_back_and_taken_away(cluster: Cluster) -> None:
    chart = str(CHART)
    said = cluster.helm("install", RELEASE, chart, "--values", str(COMPANY))
    assert "web_token" in said
    assert "delete pod" not in said
    first = rendered(COMPANY)
    before = {(each["kind"], each["metadata"]["name"]): spec_of(cluster.now(each)) for each in first}

    for account in ("trainfare-worker", "trainfare-collector"):
        for verb, resource in (
            ("get", "secrets"),
            ("list", "configmaps"),
            ("create", "pods"),
            ("delete", "pods"),
        ):
            assert not cluster.may(account, verb, resource)
    assert cluster.may("trainfare-collector", "list", "pods")
    assert not cluster.may("trainfare-worker", "list", "pods")

    changes = ["--set", "workers.replicas=6,image.tag=9.9.9,settings.meter.late_horizon_ms=900000"]
    said = cluster.helm("upgrade", RELEASE, chart, "--values", str(COMPANY), *changes)
    assert "delete pod" not in said
    second = rendered(COMPANY, *changes)
    workers = next(each for each in second if each["kind"] == "StatefulSet")
    there = cluster.now(workers)["spec"]
    assert (there["replicas"], there["updateStrategy"]) == (6, {"type": "RollingUpdate"})
    assert there["template"]["spec"]["containers"][0]["image"].partition("@")[0].endswith(":9.9.9")
    assert "late_horizon_ms = 900000" in next(
        cluster.now(each)["data"]["trainfare.toml"]
        for each in second
        if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", "trainfare-worker")
    )
    jobs = [next(each for each in found if each["kind"] == "Job") for found in (first, second)]
    assert [cluster.is_there(each) for each in jobs] == [False, True], "of another image there is another Job"

    with pytest.raises(HelmError, match=r"expected at most settings\.kafka\.partitions"):
        cluster.helm("upgrade", RELEASE, chart, "--values", str(COMPANY), "--set", "workers.replicas=99")
    assert cluster.now(workers)["spec"]["replicas"] == 6

    cluster.helm("rollback", RELEASE, "1")
    after = {(each["kind"], each["metadata"]["name"]): spec_of(cluster.now(each)) for each in first}
    job = ("Job", jobs[0]["metadata"]["name"])
    # A Job that is made anew has a selector of its own.
    assert after.pop(job)["spec"]["template"]["spec"] == before.pop(job)["spec"]["template"]["spec"]
    assert after == before
    assert [cluster.is_there(each) for each in jobs] == [True, False]

    cluster.helm("uninstall", RELEASE)
    left = [each["kind"] for each in first if cluster.is_there(each)]
    assert left == ["PersistentVolumeClaim"], "positions of collectors stay"
    again = cluster.helm("install", RELEASE, chart, "--values", str(COMPANY))
    assert "STATUS: deployed" in again, "the claim that stayed is taken up again"
