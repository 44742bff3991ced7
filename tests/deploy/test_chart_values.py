"""The chart's values: its files are written from deploy/helm/values.py, what cannot be is refused, and every value is used."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from deploy.helm.values import METRICS_PORTS, Values, secret_settings, settings_schema
from deploy.helm.write import CHART, files
from streams.config.load import groups, is_secret
from tests.deploy.chart import EXAMPLES, MANIFESTS
from tests.meta.tree import ROOT

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}


def refusals(values: object) -> list[str]:
    return [fault.message for fault in Draft7Validator(SCHEMA).iter_errors(values)]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_what_is_generated_is_up_to_date(path: Path) -> None:
    """If this fails: `make docs`."""
    assert path.read_text() == files()[path]


def test_the_schema_is_one_and_takes_the_defaults_and_the_examples() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert not refusals(DEFAULTS)
    assert not refusals({"global": {"of": "a chart that has this one"}})
    assert len(EXAMPLES) == 3
    for path in EXAMPLES:
        values = yaml.safe_load(path.read_text())
        assert not refusals(values), path.name
        Values.model_validate(values)


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.parametrize(
    "values",
    [
        {"settngs": {}},
        {"image": {"repository": "a b"}},
        {"image": {"repository": 'trainfare"\nhostPID: true'}},
        {"image": {"tag": "{{ .Values.x }}"}},
        {"image": {"digest": "sha256:12"}},
        {"image": {"pullSecrets": ['a"']}},
        {"fullnameOverride": "A"},
        {"fullnameOverride": "a\nb"},
        {"fullnameOverride": "a" * 41},
        {"secrets": {"web_token": "s3cr3t"}},
        {"secrets": {"keys": ["web_tokn"]}},
        {"secrets": {"name": "a/b"}},
        {"secrets": {"others": {"kafka_sasl_password": {"name": "a", "key": "../x"}}}},
        {"secrets": {"others": {"no_such_setting": {"name": "a", "key": "x"}}}},
        {"secrets": {"files": {"../../etc/passwd": {"name": "a", "key": "x"}}}},
        {"secrets": {"files": {"web_token": {"name": "a", "key": "x"}}}},
        {"settings": {"kafka": {"partitons": 8}}},
        {"settings": {"kafka": {"partitions": "8"}}},
        {"settings": {"kafka": {"partitions": 0}}},
        {"settings": {"clickhouse": {"password": "s3cr3t"}}},
        {"settings": {"clickhouse": {"data_dir": "/var/lib/trainfare"}}},
        {"settings": {"alerts": {"webhook_secret": "s3cr3t"}}},
        {"settings": {"web": {"port": 1}}},
        {"settings": {'x]\n[web]\ntoken = "a"': {}}},
        {"workers": {"replicas": -1}},
        {"workers": {"replicas": "2"}},
        {"workers": {"updateStrategy": "Recreate"}},
        {"workers": {"tmpSize": "1 GB"}},
        {"workers": {"securityContext": {"runAsUser": 0}}},
        {"workers": {"resources": {"limits": {"memory": '4Gi"'}}}},
        {"workers": {"priorityClassName": "a\nhostNetwork: true"}},
        {"collectors": {"tables": {"slurm": {}}}},
        {"collectors": {"tables": {"kubernetes": {"token_file": "/etc/x"}}}},
        {"collectors": {"tables": {"kubernetes": {"clustr": "a"}}}},
        {"collectors": {"to": "http://a b"}},
        {"collectors": {"to": 'http://a"\n- --x'}},
        {"collectors": {"volume": {"size": "lots"}}},
        {"networkPolicy": {"kafka": []}},
        {"networkPolicy": {"kafka": [{}]}},
        {"networkPolicy": {"dns": []}},
        {"networkPolicy": {"people": [{"namespaceSelector": {}}]}},
        {"networkPolicy": {"people": [{"namespaceSelector": {"matchLabels": {}}}]}},
        {"networkPolicy": {"people": [{"ipBlock": {"cidr": "anywhere"}}]}},
        {"networkPolicy": {"receivers": [{"to": [], "ports": [443]}]}},
        {"networkPolicy": {"receivers": [{"to": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": []}]}},
        {"networkPolicy": {"receivers": [{"to": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": [0]}]}},
        {"disruptionBudget": {"maxUnavailable": 0}},
        {"serviceMonitor": {"interval": "15"}},
        {"ingress": {"host": "a b"}},
        {"ingress": {"tlsSecret": ""}},
    ],
    ids=lambda values: json.dumps(values)[:60],
)  # fmt: skip
def test_what_cannot_be_is_refused(values: object) -> None:
    assert refusals(values)


def test_no_value_is_a_secret_and_every_secret_setting_may_be_named() -> None:
    """What Helm is given stands in its release, in the shell's history and in repositories."""
    known = settings_schema()["properties"]
    for group, model in groups().items():
        for name, field in model.model_fields.items():
            assert not (is_secret(field) and name in known.get(group, {"properties": {}})["properties"])
    named = SCHEMA["$defs"]["Secrets"]["properties"]["keys"]["items"]["pattern"]
    assert "writeOnly" not in json.dumps(SCHEMA)
    assert [each for each in secret_settings() if not re.search(named, each)] == []
    assert not re.search(named, "kafka_partitions")


def keys_of(part: Any, before: str = "") -> set[str]:
    if not isinstance(part, dict) or not part:
        return {before}
    return {found for name, each in part.items() for found in keys_of(each, f"{before}.{name}")}


def test_every_value_is_read_by_a_template_and_no_other_is() -> None:
    """A value that nothing reads is a promise that is not kept; one that is not declared is refused by the schema."""
    text = "\n".join(TEMPLATES.values())
    for name in keys_of(DEFAULTS):
        *_, last = name.split(".")
        group = name.split(".")[1]
        read_as_a_whole = group in ("settings",) or re.search(r"\.(resources|tables|token|placed)\b", name)
        assert read_as_a_whole or re.search(rf"\.{last}\b", text), name
    top = set(re.findall(r"\.Values\.(\w+)", text))
    assert top == set(DEFAULTS)


def test_no_template_evaluates_a_value() -> None:
    """With `tpl` whoever may set a value could read all others."""
    for name, text in TEMPLATES.items():
        assert not re.search(r"\btpl\b|\blookup\b|\bgetHostByName\b", text), name


def test_ports_of_metrics_are_those_of_the_schema() -> None:
    pairs = re.search(r'\$ports := dict ((?:"\w+" \d+ ?)+)', TEMPLATES["collector.yaml"])
    assert pairs is not None
    assert {name: int(port) for name, port in re.findall(r'"(\w+)" (\d+)', pairs[1])} == METRICS_PORTS


def test_the_manifests_say_what_they_are_of() -> None:
    head = MANIFESTS.read_text().partition("\n")[0]
    for name in re.findall(r"(?:deploy|docs)/[\w./-]+", head):
        assert (ROOT / name.rstrip(".")).exists(), name
