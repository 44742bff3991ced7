"""The chart as Helm renders it, and the manifests that are rendered from it, for tests."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.helm.write import CHART
from tests.go_tools import HELM, KUBERNETES, installed
from tests.meta.tree import ROOT

EXAMPLES: Final = sorted((ROOT / "deploy/helm/examples").glob("*.yaml"))
MANIFESTS: Final = ROOT / "deploy/kubernetes/trainfare.yaml"
RELEASE: Final = "trainfare"


class HelmError(Exception):
    """What Helm says where it refuses."""


def helm(*words: str, stdin: str = "", **variables: str) -> str:
    """What Helm prints.

    Raises:
        HelmError: It refuses.
    """
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(installed(HELM).parent), **variables}
    done = subprocess.run(
        [str(installed(HELM)), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
    )
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


def rendered(values: object = None, *words: str, release: str = RELEASE) -> list[dict[str, Any]]:
    """The objects that a release has with these values; with a path those of a file.

    Raises:
        HelmError: Helm or the schema refuses.
    """
    named = ["--values", str(values)] if isinstance(values, Path) else ["--values", "-"] if values else []
    text = helm(
        "template", release, str(CHART), "--namespace", RELEASE, "--kube-version", KUBERNETES, *named, *words,
        stdin="" if isinstance(values, Path) else in_yaml(values),
    )  # fmt: skip
    return [each for each in yaml.safe_load_all(text) if each]


def in_yaml(values: object) -> str:
    """Values as JSON, which is YAML, with all that is not ASCII as YAML escapes it."""
    text = json.dumps(values, ensure_ascii=False)
    return re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", text)


def manifests() -> list[dict[str, Any]]:
    """The objects of deploy/kubernetes/trainfare.yaml."""
    return [each for each in yaml.safe_load_all(MANIFESTS.read_text()) if each]


def component(found: dict[str, Any]) -> str:
    """What of the meter an object is of: worker, topics, collector, network."""
    return str(found["metadata"]["labels"]["app.kubernetes.io/component"])


def pod_templates(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The templates of pods by component."""
    templates = [each["spec"]["template"] for each in objects if "template" in each.get("spec", {})]
    return {component(each): each for each in templates}
