"""The network policies of deploy/kubernetes/trainfare.yaml: nothing by default, and what the other objects need, by labels and ports that these have."""

from __future__ import annotations

import tomllib
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.deploy.chart import manifests, pod_templates
from tests.deploy.test_kubernetes import of_kind

OBJECTS = manifests()
POLICIES = [each for each in OBJECTS if each["kind"] == "NetworkPolicy"]
APPS = pod_templates(OBJECTS)
OF_RELEASE = {"app.kubernetes.io/name": "trainfare", "app.kubernetes.io/instance": "trainfare"}


def selected(policy: dict[str, Any]) -> set[str]:
    """The apps of the pods to which a policy applies."""
    wanted = policy["spec"]["podSelector"].get("matchLabels", {}).items()
    return {app for app, each in APPS.items() if wanted <= each["metadata"]["labels"].items()}


def rules(app: str, direction: str) -> list[dict[str, Any]]:
    """The rules that hold for an app's pods, all policies together; each is added to the others."""
    return [
        rule
        for policy in POLICIES
        if app in selected(policy) and direction.capitalize() in policy["spec"]["policyTypes"]
        for rule in policy["spec"].get(direction, [])
    ]


def ports_of(app: str) -> dict[str, int]:
    containers = APPS[app]["spec"]["containers"]
    return {port["name"]: port["containerPort"] for each in containers for port in each.get("ports", [])}


def namespaces(app: str, direction: str, port: object) -> set[str]:
    """The namespaces that may reach a port of the app, or whose port it may reach."""
    side = "from" if direction == "ingress" else "to"
    return {
        str(peer.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name"))
        for rule in rules(app, direction)
        if port in [each["port"] for each in rule["ports"]]
        for peer in rule[side]
        if "namespaceSelector" in peer
    }


def test_they_are_of_the_namespace_that_the_others_are() -> None:
    for each in OBJECTS:
        assert each["metadata"].get("namespace") == (
            None if each["kind"].startswith("Cluster") else "trainfare"
        )
    names = [each["metadata"]["name"] for each in POLICIES]
    assert len(set(names)) == len(names)


def test_by_default_nothing_goes_in_or_out_of_any_pod() -> None:
    (denied,) = (each for each in POLICIES if each["metadata"]["name"] == "trainfare-default-deny")
    assert denied["spec"] == {
        "podSelector": {"matchLabels": OF_RELEASE},
        "policyTypes": ["Ingress", "Egress"],
    }
    assert selected(denied) == set(APPS)


def test_every_pod_has_a_policy_and_every_policy_a_pod() -> None:
    assert set(APPS) == {"worker", "topics", "collector"}
    own = [selected(each) for each in POLICIES if each["spec"]["podSelector"] != {"matchLabels": OF_RELEASE}]
    assert sorted(own, key=str) == sorted(({app} for app in APPS), key=str)


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_each_rule_names_its_peers_and_its_ports(direction: str) -> None:
    """An empty list of either allows all."""
    side = "from" if direction == "ingress" else "to"
    for policy in POLICIES:
        for rule in policy["spec"].get(direction, []):
            assert rule[side]
            assert rule["ports"]
            assert all(peer for peer in rule[side])
            assert all(each.get("port") for each in rule["ports"])
            for peer in rule[side]:
                for selector in ("namespaceSelector", "podSelector"):
                    assert peer.get(selector, {"matchLabels": {"a": "b"}}).get("matchLabels"), (
                        "an empty one is all"
                    )


def test_a_worker_is_reached_at_its_port_by_those_who_ask_and_send() -> None:
    assert "http" in ports_of("worker")
    assert namespaces("worker", "ingress", "http") == {"ingress-nginx", "monitoring", "None"}
    (rule,) = rules("worker", "ingress")
    assert {"podSelector": {"matchLabels": APPS["collector"]["metadata"]["labels"]}} in rule["from"]
    assert [each["port"] for each in rule["ports"]] == ["http"]


def test_a_worker_reaches_the_kafka_and_the_clickhouse_of_its_settings() -> None:
    settings = tomllib.loads(of_kind("ConfigMap", "worker")["data"]["trainfare.toml"])
    host, _, port = settings["kafka"]["bootstrap_servers"].partition(":")
    for app in ("worker", "topics"):
        assert namespaces(app, "egress", int(port)) == {host.split(".")[1]}
    store = urlsplit(settings["clickhouse"]["url"])
    assert namespaces("worker", "egress", store.port) == {str(store.hostname).split(".")[1]}


def test_receivers_of_alerts_are_outside_of_the_cluster() -> None:
    (out,) = (rule for rule in rules("worker", "egress") if "ipBlock" in rule["to"][0])
    assert [each["port"] for each in out["ports"]] == [443]
    first, second = (each["ipBlock"] for each in out["to"])
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8"} <= set(
        first["except"]
    )
    assert {"fc00::/7", "fe80::/10", "::1/128"} <= set(second["except"])


def test_the_collector_reaches_a_worker_the_api_server_and_the_exporters_of_its_configuration() -> None:
    app = "collector"
    (to_worker,) = (
        rule for rule in rules(app, "egress") if "podSelector" in rule["to"][0] and len(rule["to"][0]) == 1
    )
    assert to_worker["to"] == [{"podSelector": {"matchLabels": APPS["worker"]["metadata"]["labels"]}}]
    document = tomllib.loads(of_kind("ConfigMap", "collector")["data"]["collect.toml"])
    wanted = {urlsplit(target).port for target in document["dcgm"]["targets"]} | {443, 6443}
    (nodes,) = (rule for rule in rules(app, "egress") if "ipBlock" in rule["to"][0])
    assert {each["port"] for each in nodes["ports"]} == wanted
    assert "169.254.0.0/16" in nodes["to"][0]["ipBlock"]["except"], "a cloud's metadata has credentials"
    (scraped,) = rules(app, "ingress")
    assert {each["port"] for each in scraped["ports"]} == set(ports_of(app))


def test_all_look_up_names_and_named_ports_are_ports_of_their_pods() -> None:
    for app in APPS:
        assert "kube-system" in namespaces(app, "egress", 53)
        for rule in rules(app, "ingress"):
            assert {each["port"] for each in rule["ports"] if isinstance(each["port"], str)} <= set(
                ports_of(app)
            )
    for app in APPS:
        for rule in rules(app, "egress"):
            for peer in rule["to"]:
                label = peer.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/component")
                for port in rule["ports"]:
                    if isinstance(port["port"], str):
                        assert port["port"] in ports_of(str(label))
