"""The distribution: its packages are those of its folder, it needs nothing, and every file is Python 3.9."""

from __future__ import annotations

import ast
import tomllib

import trainfare

from tests.sdk.scripts import SDK


def test_the_distribution_has_every_package_and_needs_none() -> None:
    project = tomllib.loads((SDK / "pyproject.toml").read_text())
    there = {".".join(path.parent.relative_to(SDK).parts) for path in (SDK / "trainfare").rglob("*.py")}
    assert set(project["tool"]["setuptools"]["packages"]) == there
    assert project["project"]["dependencies"] == []
    assert set(trainfare.__all__) == {"Run", "cost_attributes", "metered", "run"}


def test_every_file_is_python_3_9() -> None:
    newer = {"Self", "override", "assert_never", "ParamSpec", "TypeAlias", "Concatenate", "TypeGuard"}
    for path in (SDK / "trainfare").rglob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "typing"
            for alias in node.names
        }
        assert names & newer == set(), path
