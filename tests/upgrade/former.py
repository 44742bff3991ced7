"""A former release beside this tree: built from the commit that it was. Both run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.workers import Workers
from tests.forked import ROOT, without_settings

#: 0.1.0 has no tag. This is the last commit before the first change that CHANGELOG.md lists after it, on the day of its heading.
COMMIT_OF: Final = {"0.1.0": "35a75a142c4ec6ea17a9f914a0de4b9103808045"}
_COMMAND_S: Final = 900


def missing(version: str) -> str:
    """Why the release cannot be built here; empty if it can."""
    if not (ROOT / ".git").exists():
        return "this is no checkout of the repository"
    words = ["git", "cat-file", "-e", f"{COMMIT_OF[version]}^{{commit}}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    return "" if done.returncode == 0 else f"the history here does not reach back to {version}"


@dataclass(frozen=True)
class Release:
    """A version as it is run: its packages lie in `site`, and what they need comes from this environment."""

    site: Path

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Variables with which Python finds its packages before any others."""
        return {**without_settings(), **given, "PYTHONPATH": str(self.site)}

    def run(self, *words: str, env: Mapping[str, str] | None = None, code: int = 0) -> str:
        """Run one of its commands; return all that it says."""
        done = subprocess.run(
            [sys.executable, "-m", "streams.cli.main", *words],
            cwd=self.site,
            env=self.environment(env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_S,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


THIS: Final = Release(ROOT)


def built(version: str, folder: Path) -> Release:
    """Build the wheel of a release from its commit, and install it into a folder."""
    source, site = folder / "source", folder / "site"
    source.mkdir(parents=True)
    with subprocess.Popen(
        ["git", "archive", COMMIT_OF[version]], cwd=ROOT, stdout=subprocess.PIPE
    ) as archive:
        subprocess.run(["tar", "-x", "-C", str(source)], stdin=archive.stdout, check=True)
    assert archive.returncode == 0
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    words = [*pip, "--no-deps", "--no-build-isolation", "--target", str(site), str(source)]
    subprocess.run(words, check=True, timeout=_COMMAND_S, env=dict(os.environ))
    found = Release(site)
    assert found.run("--version").strip() == f"trainfare {version}"
    return found


@dataclass
class WorkersOf(Workers):
    """Workers of one version."""

    release: Release = THIS

    def _process(self, env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "streams.cli.main", "worker"],
                cwd=self.release.site,
                env=self.release.environment(env),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
