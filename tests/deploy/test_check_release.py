"""A release is made of a tag only where tag, version and changelog are of one mind."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from deploy.check_release import ROOT, ReleaseError, main, notes

PROJECT = '[project]\nversion = "1.2.0"\n'
CHANGELOG = (
    "# Changelog\n\n## [1.2.0] - 2026-01-31\n\n### Asking\n\n- More.\n\n## [1.1.0] - 2025-12-31\n\n- Less.\n"
)


def test_the_notes_are_those_of_the_version_alone() -> None:
    assert notes("v1.2.0", PROJECT, CHANGELOG) == "### Asking\n\n- More."


@pytest.mark.parametrize(
    ("tag", "changelog", "why"),
    [
        ("v1.2.1", CHANGELOG, r"the tag is v1\.2\.1, and pyproject\.toml says 1\.2\.0"),
        ("1.2.0", CHANGELOG, r"the tag is 1\.2\.0, and"),
        ("v1.2.0", CHANGELOG.replace("1.2.0", "1.3.0"), r"newest heading of CHANGELOG\.md is 1\.3\.0"),
        (
            "v1.2.0",
            f"## [Unreleased]\n\n- New.\n\n{CHANGELOG}",
            r"newest heading of CHANGELOG\.md is Unreleased",
        ),
        ("v1.2.0", "# Changelog\n", r"newest heading of CHANGELOG\.md is none"),
        ("v1.2.0", CHANGELOG.replace(" - 2026-01-31", ""), r"1\.2\.0 in CHANGELOG\.md has no date"),
        ("v1.2.0", CHANGELOG.replace("### Asking\n\n- More.\n", ""), r"says nothing of 1\.2\.0"),
        (
            "v1.2.0",
            CHANGELOG.replace("- More.", "- More.\n\n### Alerts\n\n- Other.\n\n### Asking\n\n- Again."),
            r"1\.2\.0 has more than once: Asking$",
        ),
    ],
)
def test_what_differs_is_said(tag: str, changelog: str, why: str) -> None:
    with pytest.raises(ReleaseError, match=why):
        notes(tag, PROJECT, changelog)


def test_the_exit_code_says_whether_it_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk/pyproject.toml").write_text(PROJECT)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    assert main(["v1.2.0"], tmp_path) == 0
    assert capsys.readouterr().out == "### Asking\n\n- More.\n"
    assert main(["v1.2.1"], tmp_path) == 1
    assert "pyproject.toml says 1.2.0" in capsys.readouterr().err
    assert main([], tmp_path) == 2
    (tmp_path / "sdk/pyproject.toml").write_text('[project]\nname = "trainfare-sdk"\nversion = "1.1.0"\n')
    assert main(["v1.2.0"], tmp_path) == 1
    assert "trainfare-sdk is 1.1.0, and the release 1.2.0" in capsys.readouterr().err


def test_the_changelog_has_the_version_of_this_checkout_or_what_comes_after_it() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    released = changelog[changelog.index(f"## [{version}] - ") :]
    assert notes(f"v{version}", (ROOT / "pyproject.toml").read_text(), released)
