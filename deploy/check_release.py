"""Whether a tag may become a release: `python -m deploy.check_release v0.1.0` prints its notes, or says what differs."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_HEADING: Final = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
_PART: Final = re.compile(r"^### (.+)$", re.MULTILINE)


class ReleaseError(Exception):
    """The tag is not that of the version; the message says what to change."""


def notes(tag: str, project: str, changelog: str, *others: str) -> str:
    """What the changelog says of the tag's version.

    Raises:
        ReleaseError: The tag, the version of `project` (pyproject.toml) and of `others`, and the newest heading are not the same, or its
            part of the changelog is empty or has a heading twice.
    """
    version = tomllib.loads(project)["project"]["version"]
    for each in others:
        if (other := tomllib.loads(each)["project"])["version"] != version:
            raise ReleaseError(
                f"{other['name']} is {other['version']}, and the release {version}: change its pyproject.toml"
            )
    if tag != f"v{version}":
        raise ReleaseError(
            f"the tag is {tag}, and pyproject.toml says {version}: tag v{version}, or change it"
        )
    headings = list(_HEADING.finditer(changelog))
    newest = headings[0] if headings else None
    if newest is None or newest[1] != version:
        found = "none" if newest is None else newest[1]
        raise ReleaseError(f"the newest heading of CHANGELOG.md is {found}, and the release is {version}")
    if newest[2] is None:
        raise ReleaseError(
            f"the heading of {version} in CHANGELOG.md has no date: ## [{version}] - YYYY-MM-DD"
        )
    text = changelog[newest.end() : headings[1].start() if len(headings) > 1 else None].strip()
    if not text:
        raise ReleaseError(f"CHANGELOG.md says nothing of {version}")
    parts = Counter(_PART.findall(text))
    if twice := [part for part, times in parts.items() if times > 1]:
        raise ReleaseError(f"in CHANGELOG.md {version} has more than once: {', '.join(twice)}")
    return text


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Print the notes of a tag; 1 where it is no release, 2 without a tag."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m deploy.check_release TAG\n")
        return 2
    try:
        project, changelog, sdk = (
            root / name for name in ("pyproject.toml", "CHANGELOG.md", "sdk/pyproject.toml")
        )
        text = notes(arguments[0], project.read_text(), changelog.read_text(), sdk.read_text())
    except ReleaseError as fault:
        sys.stderr.write(f"check_release: {fault}\n")
        return 1
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
