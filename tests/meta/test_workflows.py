"""Workflows run code of others by commit, not by a tag that can be moved; and they may only read, but to release a tag."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.meta.test_verbs import makefile_verbs
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


def too_free(workflow: dict[Any, Any], writers: frozenset[str] = frozenset()) -> list[str]:
    """Return what a workflow may do beyond reading the repository; `writers`: jobs that may write its contents."""
    found = [] if workflow.get("permissions") == {"contents": "read"} else ["permissions"]
    # YAML 1.1 reads the key `on` as true. This trigger runs strangers' code with the repository's rights.
    found += ["pull_request_target"] if "pull_request_target" in workflow[True] else []
    for name, job in workflow["jobs"].items():
        allowed = {"contents": "write"} if name in writers else None
        found += [name] if job.get("permissions") != allowed else []
        checkouts = [step for step in job["steps"] if "/checkout@" in step.get("uses", "")]
        kept = [step for step in checkouts if step.get("with", {}).get("persist-credentials") is not False]
        found += [f"{name}: credentials"] if kept or not checkouts else []
    return found


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_may_read_the_repository_and_nothing_else(path: Path) -> None:
    writers = frozenset({"publish"}) if path.name == "release.yml" else frozenset[str]()
    assert not too_free(yaml.safe_load(path.read_text(encoding="utf-8")), writers)


def test_the_job_that_writes_releases_a_tag_that_was_tested_by_a_job_that_reads() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    check, publish = workflow["jobs"]["check"], workflow["jobs"]["publish"]
    assert publish["needs"] == "check"
    assert ".ci/run" in commands(check)
    for job in (check, publish):
        assert commands(job)[1 if job is check else 0].startswith("python -m deploy.check_release ")
    # The token is given to the last step alone, and no step before it installs more than the locked setuptools.
    assert [step for step in publish["steps"] if "env" in step] == [publish["steps"][-1]]
    assert commands(publish)[-1].startswith("gh release create ")
    assert commands(publish)[1] == "make dist PYTHON=python3.13"


def test_the_nightly_run_is_of_verbs_that_exist() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8"))
    verbs = {each["verb"] for each in workflow["jobs"]["nightly"]["strategy"]["matrix"]["include"]}
    assert "schedule" in workflow[True]
    assert verbs == {"test-long", "bench-check", "coverage"}
    assert verbs <= makefile_verbs()


def test_dependabot_watches_all_but_what_is_moved_by_hand() -> None:
    watched = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert [each["package-ecosystem"] for each in watched] == ["pip", "github-actions", "docker"]
    ignored = {each["dependency-name"] for each in watched[0]["ignore"]}
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    assert ignored == {re.split(r"[\[=]", each)[0] for each in dependencies if "==" in each}


def test_the_hooks_run_what_make_check_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    tools = {" ".join(hook["entry"].split()[:2]).partition(" -")[0] for hook in hooks[0]["hooks"]}
    assert tools == {f".venv/bin/{each}" for each in ("ruff check", "ruff format", "lint-imports", "mypy")}
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck: ")[2].partition("\n\n")[0]
    assert all(tool.replace(".venv/bin", "$(BIN)") in recipe for tool in tools)


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


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ("permissions: {contents: write}", ["permissions"]),
        ("permissions: {}", ["permissions"]),
        ("'on': pull_request_target", ["pull_request_target"]),
        ("jobs: {a: {steps: [], permissions: {contents: read}}}", ["a", "a: credentials"]),
        ("jobs: {a: {steps: [{uses: actions/checkout@v4}]}}", ["a: credentials"]),
        ("jobs: {b: {steps: [{uses: x/checkout@v4, with: {persist-credentials: false}}]}}", ["b"]),
    ],
)
def test_what_a_workflow_may_do_beyond_reading_is_found(changed: str, found: list[str]) -> None:
    modest = {
        "permissions": {"contents": "read"},
        True: "push",
        "jobs": {"a": {"steps": [{"uses": "x/checkout@v4", "with": {"persist-credentials": False}}]}},
    }
    assert not too_free(modest)
    change = {True if key == "on" else key: value for key, value in yaml.safe_load(changed).items()}
    assert too_free(modest | change, frozenset({"b"})) == found


def test_a_commit_without_its_release_is_found() -> None:
    line = "- uses: actions/checkout@" + "0" * 40
    assert without_version(line)
    assert without_version(f"{line}  # v4")
    assert not without_version(f"{line}  # v4.1.0")
