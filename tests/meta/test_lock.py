"""requirements.lock pins everything by hash and names no place to load it from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka import codec

from tests.meta.tree import ROOT

_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(\S+)")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(text: str) -> dict[str, list[str]]:
    """Return each requirement's lines by its first line."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            current = line
            found[current] = []
        elif line.strip():
            found[current].append(line.strip())
    return found


def unhashed(text: str) -> list[str]:
    return [
        head
        for head, lines in entries(text).items()
        if not _NAME.match(head)
        or not any(re.fullmatch(r"--hash=sha256:[0-9a-f]{64} ?\\?", line) for line in lines)
    ]


def places(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(r"://|--(extra-)?index|--find-links| @ ", line)]


LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_every_package_is_pinned_with_hashes() -> None:
    assert len(entries(LOCK)) > 40
    assert not unhashed(LOCK)


def test_no_address_of_a_registry() -> None:
    assert not places(LOCK)


def test_every_dependency_of_the_project_is_locked_within_its_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for extra in extras.values() for each in extra)]
    # That of the documentation site stands apart.
    locked = names_in(LOCK) | names_in((ROOT / "requirements-docs.lock").read_text(encoding="utf-8"))
    assert f"echo '{extras['docs'][0]}'" in (ROOT / "Makefile").read_text(encoding="utf-8")
    missing = [each for each in wanted if normal(re.split(r"[\[<>=!~; ]", each)[0]) not in locked]
    assert not missing
    exact = [re.sub(r"\[.*\]", "", each) for each in wanted if "==" in each]
    assert len(exact) == 2
    pinned = {"==".join(match.groups()) for head in entries(LOCK) if (match := _NAME.match(head))}
    assert set(exact) <= pinned


def test_the_page_that_installs_names_every_extra_of_users_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    named = set(re.findall(r"'\.\[(\w+)\]'", page))
    assert named == project["optional-dependencies"].keys() - {"dev", "test"}


@pytest.mark.parametrize("name", ["gzip", "lz4", "snappy", "zstd"])
def test_every_codec_of_kafka_can_be_read(name: str) -> None:
    assert getattr(codec, f"has_{name}")()


SMALL = {
    name: (ROOT / f"requirements-{name}.lock").read_text(encoding="utf-8") for name in ("runtime", "build")
}
"""Parts of the lock: what runs in the image, and what builds the package for it."""

DEVELOPMENT = {
    "setuptools", "pip", "wheel", "uv", "ruff", "mypy", "pytest", "pytest-xdist", "pytest-timeout", "hypothesis",
    "playwright", "import-linter", "aiosmtpd", "axe-playwright-python", "jsonschema", "grafana-foundation-sdk", "pyyaml", "greenlet", "coverage",
}  # fmt: skip


def names_in(text: str) -> set[str]:
    return {normal(match[1]) for head in entries(text) if (match := _NAME.match(head))}


def not_in(part: str, whole: str) -> list[str]:
    """Return entries of the part that the whole lacks, or has with another version, marker or hash."""
    found = entries(whole)
    return [head for head, lines in entries(part).items() if found.get(head) != lines]


def wanted_by(project: dict[str, Any], extras: Iterable[str]) -> set[str]:
    listed = (each for extra in extras for each in project["optional-dependencies"][extra])
    return {normal(re.split(r"[\[<>=!~; ]", each)[0]) for each in listed}


@pytest.mark.parametrize("name", SMALL)
def test_the_locks_of_the_image_are_parts_of_the_lock(name: str) -> None:
    assert not unhashed(SMALL[name])
    assert not places(SMALL[name])
    assert not not_in(SMALL[name], LOCK)


def test_the_image_runs_what_the_project_needs_and_no_tool_of_its_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {normal(re.split(r"[\[<>=!~; ]", each)[0]) for each in project["dependencies"]}
    assert needed | wanted_by(project, ["embedded", "oidc", "sealed"]) <= names_in(SMALL["runtime"])
    tools = wanted_by(
        project,
        project["optional-dependencies"].keys() - {"embedded", "oidc", "sealed", "jit", "docs", "pdf"},
    )
    assert tools - DEVELOPMENT <= {"types-pyyaml"}
    assert not names_in(SMALL["runtime"]) & (DEVELOPMENT | tools | wanted_by(project, ["jit", "pdf"]))


def test_the_build_needs_what_compiles_the_kernels_and_no_more() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = {normal(re.split(r"[\[<>=!~; ]", each)[0]) for each in project["build-system"]["requires"]}
    assert names_in(SMALL["build"]) == named == {"setuptools", "numba", "llvmlite", "numpy"}


def test_guards_fire() -> None:
    assert unhashed("numpy==2.0 \\\n    --hash=md5:00\n")
    assert unhashed("numpy>=2.0\n")
    assert places("numpy @ file:///numpy.whl\n")
    assert not_in("a==1 \\\n    --hash=sha256:0\n", "a==2 \\\n    --hash=sha256:0\n")
    assert not_in("a==1 \\\n    --hash=sha256:0\n", "a==1 \\\n    --hash=sha256:1\n")
    assert not_in("a==1 \\\n    --hash=sha256:0\n", "b==1 \\\n    --hash=sha256:0\n")
    assert places("--index-url x\n")
