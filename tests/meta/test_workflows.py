"""Workflows run code of others by commit, not by a tag that can be moved; and they may only read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.meta.tree import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
_BY_COMMIT = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
_LINE = re.compile(r"uses:\s*(\S+)\s*(#.*)?$")


def uses_in(node: Any) -> list[str]:
    """Return every `uses` at any depth, of steps and of whole jobs."""
    if isinstance(node, dict):
        own = [str(node["uses"])] if "uses" in node else []
        return own + [found for value in node.values() for found in uses_in(value)]
    if isinstance(node, list):
        return [found for value in node for found in uses_in(value)]
    return []


def not_by_commit(text: str) -> list[str]:
    return [each for each in uses_in(yaml.safe_load(text)) if not _BY_COMMIT.fullmatch(each)]


def without_version(text: str) -> list[str]:
    """Return lines that name a commit and do not say which release it is."""
    lines = [match for line in text.splitlines() if (match := _LINE.search(line))]
    return [match[1] for match in lines if not re.fullmatch(r"# v\d+\.\d+\.\d+", match[2] or "")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_named_by_commit_and_say_their_release(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert uses_in(yaml.safe_load(text))
    assert not not_by_commit(text)
    assert not without_version(text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_may_read_the_repository_and_nothing_else(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert not [job for job in workflow["jobs"].values() if "permissions" in job]
    # YAML 1.1 reads the key `on` as true. This trigger runs strangers' code with the repository's rights.
    assert "pull_request_target" not in workflow[True]
    checkouts = [
        step
        for job in workflow["jobs"].values()
        for step in job["steps"]
        if "/checkout@" in step.get("uses", "")
    ]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize(
    "uses",
    [
        "actions/checkout@v4",
        "actions/checkout@main",
        "actions/checkout",
        "actions/checkout@11d5960",
        "docker://alpine:3.8",
        "./.github/actions/x",
        "actions/checkout@" + "g" * 40,
    ],
)
@pytest.mark.parametrize("form", ["jobs: {{a: {{steps: [{{uses: '{}'}}]}}}}", "jobs: {{a: {{uses: '{}'}}}}"])
def test_the_guard_fires(uses: str, form: str) -> None:
    assert not_by_commit(form.format(uses)) == [uses]


def test_a_commit_without_its_release_is_found() -> None:
    line = "- uses: actions/checkout@" + "0" * 40
    assert without_version(line)
    assert without_version(f"{line}  # v4")
    assert not without_version(f"{line}  # v4.1.0")
