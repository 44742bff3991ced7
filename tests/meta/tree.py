"""The files of the project as git knows them, and the rules every one of them keeps."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_MAX = 500

_SUPPRESSION = re.compile(
    r"#\s*(noqa|type:\s*ignore|pragma: no cover|fmt: skip)(?P<codes>[^#]*)(?P<rest>#.*)?$"
)
_DASHED = re.compile(r"\s-+\s+\S.{5,}")


def tracked() -> list[Path]:
    """Return the tracked files; without git there is nothing to hold to the rules."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def unexplained_in(text: str) -> list[str]:
    """Return lines that silence a check without saying why on the same line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _SUPPRESSION.search(line)
        if match is None or match.group(1) == "fmt: skip":
            continue
        before = line[: match.start()]
        explained = len((match.group("rest") or "").strip("# ")) > 3 or _DASHED.search(match.group("codes"))
        if not explained and before.count('"') % 2 == 0:
            found.append(f"{number}: {line.strip()}")
    return found


def docstring_of(source: str) -> str:
    """Return the module's docstring, or nothing."""
    return ast.get_docstring(ast.parse(source)) or ""
