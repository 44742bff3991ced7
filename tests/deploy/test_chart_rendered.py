"""The chart in Helm itself: lint, what it renders, hostile values, and kubeconform by the API server's own schemas."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm.write import CHART
from streams.collect.kubernetes.options import Options
from streams.config.load import load_settings
from tests.deploy.chart import (
    EXAMPLES,
    MANIFESTS,
    HelmError,
    component,
    helm,
    pod_templates,
    rendered,
)
from tests.go_tools import (
    HELM,
    KUBECONFORM,
    PROMETHEUS_OPERATOR,
    go,
    installed,
    module,
    openapi,
)
from tests.meta.tree import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7_200),  # the first time Helm is compiled
    pytest.mark.skipif(go() is None, reason="no `go` on the PATH, which builds Helm"),
]
#: Texts that would be more than a text in YAML, TOML, a template or a shell.
HOSTILE = (
    'a"b', "a'b", "a\nb: c", "a\r\nb", "{{ .Values.image.tag }}", "{{ fail \"x\" }}", "${HOME}", "$(id)", "a # b", "- a", "*a", "&a", "!!int 1",
    "yes", "null", "1e3", "0x10", "~", "|", ">", "%", "@", "`", "a: b", "\\", "\\u0041", "\x7f", "\x85b", "\u2028c", "\ufeffd", "é", "😀", " a ", "---\nkind: Secret",
    '"]\n[web]\ntoken = "x', "a" * 1000,
)  # fmt: skip


def test_helm_lints_the_chart() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    for path in EXAMPLES:
        assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values", str(path))


def test_the_committed_manifests_are_what_the_chart_renders(tmp_path: Path) -> None:
    """If this fails: `make manifests`."""
    target = tmp_path / "trainfare.yaml"
    words = ["make", "-s", "manifests", f"HELM={installed(HELM)}", f"MANIFESTS={target}"]
    subprocess.run(words, cwd=ROOT, check=True, env={**os.environ, "HOME": str(tmp_path)})
    assert target.read_text() == MANIFESTS.read_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_no_secret_and_a_policy_for_each_pod(path: Path) -> None:
    objects = rendered(path)
    assert "Secret" not in {each["kind"] for each in objects}
    (denied,) = (each["spec"] for each in objects if each["metadata"]["name"] == "trainfare-default-deny")
    assert denied["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in denied
    assert "egress" not in denied
    pods = pod_templates(objects)
    assert pods
    own = {component(each) for each in objects if each["kind"] == "NetworkPolicy"}
    assert own == {*pods, "network"}
    for pod in pods.values():
        assert denied["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    for each in objects:
        for rule in (
            [*each["spec"].get("ingress", []), *each["spec"].get("egress", [])]
            if each["kind"] == "NetworkPolicy"
            else []
        ):
            assert all(rule.get("from") or rule["to"])
            assert rule["ports"]


def test_settings_of_the_examples_are_settings(tmp_path: Path) -> None:
    for path in EXAMPLES:
        objects = rendered(path)
        (pod,) = (each["spec"] for name, each in pod_templates(objects).items() if name == "worker")
        (found,) = (each for each in objects if each["kind"] == "ConfigMap" and component(each) == "worker")
        (tmp_path / "ca.crt").write_text("")
        text = found["data"]["trainfare.toml"].replace(
            "/run/secrets/trainfare/kafka-ca.crt", str(tmp_path / "ca.crt")
        )
        (tmp_path / "trainfare.toml").write_text(text)
        env = {each["name"]: each["value"] for each in pod["containers"][0]["env"] if "value" in each}
        for name in [each for each in env if each.endswith("_FILE")]:
            (tmp_path / name).write_text("whsec_" + "QUJD" * 8 if "WEBHOOK" in name else name.center(40, "-"))
            env[name] = str(tmp_path / name)
        settings = load_settings(
            {k: v for k, v in env.items() if k != "TRAINFARE_CONFIG"}, tmp_path / "trainfare.toml"
        )
        assert settings.kafka.partitions >= 1


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_hostile_text_stays_a_text_or_is_refused(text: str) -> None:
    """Whatever a value holds, it is that value in the end: it adds no object, no key and no line."""
    plain_text = text if text.isprintable() else "x"
    table = {"cluster": text, "teams": {text: text}, "owner_labels": [text]}
    values = {
        "settings": {"kafka": {"bootstrap_servers": text, "group_id": text[:200] or "a"}},
        "collectors": {
            "tables": {"kubernetes": table},
            "podAnnotations": {"a": plain_text},
            "nodeSelector": {"b": plain_text},
        },
        "workers": {"tolerations": [{"key": plain_text}], "serviceAccountAnnotations": {"c": plain_text}},
    }
    if len(text) > 256:
        with pytest.raises(HelmError, match="maxLength"):
            rendered(values)
        table["cluster"] = text[:256]
    plain = rendered()
    objects = rendered(values)
    assert [(each["kind"], component(each)) for each in objects] == [
        (each["kind"], component(each)) for each in plain
    ]
    maps = {component(each): each["data"] for each in objects if each["kind"] == "ConfigMap"}
    settings = tomllib.loads(maps["worker"]["trainfare.toml"])
    assert settings["kafka"]["bootstrap_servers"] == text
    assert settings.keys() == {"kafka", "clickhouse", "web", "log"}
    collect = tomllib.loads(maps["collector"]["collect.toml"])
    assert collect == {"kubernetes": table}
    Options.model_validate(collect["kubernetes"])
    pods = pod_templates(objects)
    assert pods["collector"]["metadata"]["annotations"]["a"] == plain_text
    assert pods["collector"]["spec"]["nodeSelector"] == {"b": plain_text}
    assert pods["worker"]["spec"]["tolerations"] == [{"key": plain_text}]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"workers": {"replicas": 9}}, "expected at most settings.kafka.partitions \\(8\\)"),
        ({"secrets": {"web_token": "s3cr3t"}}, "web_token"),
        ({"settings": {"clickhouse": {"password": "s3cr3t"}}}, "password"),
        ({"networkPolicy": {"people": [{}]}}, "minProperties"),
        ({"workers": {"replicas": "2"}}, "workers"),
    ],
)
def test_helm_says_what_cannot_be_and_where(values: object, words: str) -> None:
    with pytest.raises(HelmError, match=words) as refused:
        rendered(values)
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize("name", ['a": b', "a\nkind: Secret", "{{ .Values }}", "a # b"], ids=ascii)
def test_a_hostile_namespace_stays_one_word(name: str) -> None:
    objects = rendered(None, "--namespace", name)
    assert [each["kind"] for each in objects] == [each["kind"] for each in rendered()]
    assert {each["metadata"].get("namespace", name) for each in objects} == {name}


def test_a_role_of_one_namespace_is_no_role_of_the_cluster() -> None:
    table = {"namespace": "research", "include_nodes": False, "include_owners": False}
    objects = rendered({"collectors": {"tables": {"kubernetes": table}}})
    (role,) = (each for each in objects if each["kind"] == "Role")
    assert role["metadata"]["namespace"] == "research"
    assert {name for rule in role["rules"] for name in rule["resources"]} == {"pods", "resourceclaims"}
    assert not [each for each in objects if each["kind"].startswith("ClusterRole")]


def test_nothing_that_is_off_is_there() -> None:
    off = {"collectors": {"enabled": False}, "topics": {"enabled": False}, "networkPolicy": {"enabled": False}, "disruptionBudget": {"enabled": False}}  # fmt: skip
    kinds = sorted(each["kind"] for each in rendered(off))
    assert kinds == ["ConfigMap", "Service", "Service", "ServiceAccount", "StatefulSet"]


def test_two_releases_share_no_object() -> None:
    def names(release: str) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in rendered(release=release)}

    assert not names("a") & names("b")
    assert all(name.startswith(("a-trainfare", "trainfare-a-trainfare")) for _, name in names("a"))
    assert all(len(name) <= 63 for _, name in names("a" * 53))


def test_a_password_of_an_operator_is_read_from_its_own_secret() -> None:
    objects = rendered(ROOT / "deploy/helm/examples/company.yaml")
    for name, pod in pod_templates(objects).items():
        env = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
        assert ("TRAINFARE_KAFKA_SASL_PASSWORD_FILE" in env) == (name != "collector")
        assert ("TRAINFARE_WEB_TOKEN_FILE" in env) == (name == "worker")
    (monitor,) = (each for each in objects if each["kind"] == "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"] == {
        "name": "trainfare",
        "key": "web_metrics_token",
    }


# --------------------------------------------------------------------------------------------------- kubeconform


def schemas(folder: Path, wanted: set[str]) -> None:
    """Write what the API server says of its kinds as kubeconform looks it up; keys that are not known are faults."""
    definitions = json.loads(openapi().read_text())["definitions"]
    for name, each in definitions.items():
        if "properties" in each:
            each["additionalProperties"] = False
        if each.get("format") == "int-or-string" or name.endswith("resource.Quantity"):
            definitions[name] = {"type": ["string", "integer", "number"]}
    for name, each in definitions.items():
        for kind in each.get("x-kubernetes-group-version-kind", []):
            if kind["kind"] not in wanted:
                continue
            group = kind["group"].partition(".")[0]
            file = "-".join(filter(None, (kind["kind"], group, kind["version"]))).lower()
            (folder / f"{file}.json").write_text(
                json.dumps({"$ref": f"#/definitions/{name}", "definitions": definitions})
            )


def definitions_of_the_operator() -> Iterator[dict[str, Any]]:
    """The CustomResourceDefinitions of the Prometheus operator, from its sources."""
    folder = module(PROMETHEUS_OPERATOR) / "example/prometheus-operator-crd"
    for name in ("servicemonitors", "podmonitors"):
        yield yaml.safe_load((folder / f"monitoring.coreos.com_{name}.yaml").read_text())


@pytest.fixture(scope="module")
def schema_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("schemas"))
    schemas(folder, {each["kind"] for path in EXAMPLES for each in rendered(path)})
    for each in definitions_of_the_operator():
        kind = each["spec"]["names"]["kind"].lower()
        schema = each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        (folder / f"{kind}-monitoring-v1.json").write_text(json.dumps(schema))
    return folder


def conform(folder: Path, objects: list[dict[str, Any]]) -> tuple[int, str]:
    location = f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    done = subprocess.run(
        [str(installed(KUBECONFORM)), "-strict", "-summary", "-schema-location", location, "-"],
        input=yaml.safe_dump_all(objects), capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_kubeconform_finds_no_fault(path: Path, schema_folder: Path) -> None:
    objects = rendered(path)
    code, said = conform(schema_folder, objects)
    assert code == 0, said
    assert f"Valid: {len(objects)}, Invalid: 0, Errors: 0, Skipped: 0" in said


def test_kubeconform_finds_a_fault(schema_folder: Path) -> None:
    objects = rendered()
    (workers,) = (each for each in objects if each["kind"] == "StatefulSet")
    workers["spec"]["replica"] = 2
    code, said = conform(schema_folder, objects)
    assert code == 1
    assert "replica" in said
